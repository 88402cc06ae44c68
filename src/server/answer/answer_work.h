// A generation and the writer of its answer, as the HTTP layer drives them; its record is kept when it ends, however
// it does.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/access/tenants.h"
#include "server/answer/answer_reader.h"
#include "server/answer/prompt_map.h"
#include "server/api/answer_writer.h"
#include "server/http/http_types.h"
#include "server/metrics.h"
#include "server/records.h"

namespace kvasir {

// Why the cache was used as it was, for the first choice: {prompt_tokens, reused_tokens, reused_by_tier, reason,
// explanation, stopped_at, stopped_at_text, message}. Without `messages` the last one is null. Where the cache has an
// earlier answer's thoughts and the prompt no longer does, there is also "reasoning". What is told, and how tasks are
// numbered, is for the one who asked.
struct Listener {
  const Caller& caller;
  const Tokenizer& tokenizer;
  std::span<const MessageSpan> messages;
  std::span<const TokenId> openers;  // tokens that thoughts begin with
};
OrderedJson explain(const Generation& generation, const Listener& to);

class AnswerWork : public Work {
 public:
  // Of a reply that is sent whole: an answer that grows beyond it fails, and its client is told to stream.
  static constexpr size_t kLongestWhole = size_t{32} << 20;

  enum class Explain { kNo, kYes };
  struct AnswerContext {
    Metrics& metrics;
    Records& records;
    Tokenizer tokenizer;
    std::shared_ptr<const Caller> caller;
    FinishedRecord record;  // the ids and the path; the rest is filled in at the end
    Explain explain = Explain::kNo;
    std::vector<AnswerReader> readers{};  // one for each choice; empty: the answer is text
    std::vector<MessageSpan> messages{};  // where they are in the prompt, if somebody wants to know
    std::vector<TokenId> openers{};       // tokens that the model's thoughts begin with
    bool show_reasoning = true;
    std::optional<CacheDiagnosis> diagnosis{};  // as far as the prompts tell
  };

  AnswerWork(std::unique_ptr<Generation> generation, std::unique_ptr<AnswerWriter> writer, AnswerContext context);
  ~AnswerWork() override;

  void on_event(std::function<void()> wake) override { generation_->on_event(std::move(wake)); }
  Progress take() override;
  Progress give_up(GiveUp why) override;
  std::optional<TokenCounts> tokens() const override;

 private:
  AnswerReport report() const;
  OrderedJson explanation() const {
    return explain(*generation_, {*context_.caller, context_.tokenizer, context_.messages, context_.openers});
  }

  // Some parts of one choice, neighbours of a kind put together; and the probabilities that go with texts.
  struct ReadPart {
    AnswerPart part;
    std::vector<AnswerToken> tokens{};
  };
  using ReadParts = std::vector<ReadPart>;

  void read(Generation::Event& event, ReadParts& out);
  static void add(ReadParts& parts, ReadPart more);
  std::string write(size_t choice, ReadParts& parts);
  std::string write_part(size_t choice, ReadPart part);
  Totals totals() const;
  Progress failed(const ApiError& error);
  void write_down();

  std::unique_ptr<Generation> generation_;
  std::unique_ptr<AnswerWriter> writer_;
  AnswerContext context_;
  size_t held_ = 0;  // bytes of text and probabilities that the writer keeps until the answer is whole
  std::int64_t reasoning_tokens_ = 0;
  bool begun_ = false;
  bool written_down_ = false;
};

}  // namespace kvasir
