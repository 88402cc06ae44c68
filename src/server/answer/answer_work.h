// A generation and the writer of its answer, as the HTTP layer drives them; its record is kept when it ends, however
// it does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/access/tenants.h"
#include "server/answer/prompt_map.h"
#include "server/answer/tool_call_reader.h"
#include "server/api/answer_writer.h"
#include "server/http/http_types.h"
#include "server/metrics.h"
#include "server/records.h"

namespace kvasir {

// Why the cache was used as it was, for the first choice: {prompt_tokens, reused_tokens, reused_by_tier, reason,
// explanation, stopped_at, stopped_at_text, message}. Without `messages` the last one is null. What is told, and how
// tasks are numbered, is for the one who asked.
struct Listener {
  const Caller& caller;
  const Tokenizer& tokenizer;
  std::span<const MessageSpan> messages;
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
    std::vector<ToolCallReader> calls{};  // one for each choice; empty: the answer is text
    std::vector<MessageSpan> messages{};  // where they are in the prompt, if somebody wants to know
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
    return explain(*generation_, {*context_.caller, context_.tokenizer, context_.messages});
  }
  std::string write(Generation::Event event);
  std::string write_text(size_t choice, const AnswerPiece& piece);
  Progress failed(const ApiError& error);
  void write_down();

  std::unique_ptr<Generation> generation_;
  std::unique_ptr<AnswerWriter> writer_;
  AnswerContext context_;
  size_t held_ = 0;  // bytes of text and probabilities that the writer keeps until the answer is whole
  bool begun_ = false;
  bool written_down_ = false;
};

}  // namespace kvasir
