// A generation and the writer of its answer, as the HTTP layer drives them; its record is kept when it ends, however
// it does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/answer_writer.h"
#include "server/http_types.h"
#include "server/metrics.h"
#include "server/records.h"
#include "server/tool_call_reader.h"

namespace kvasir {

// Why the cache was used as it was, for one choice: {prompt_tokens, reused_tokens, reason, explanation, stopped_at,
// …}.
OrderedJson explain(const Generation& generation, size_t choice, const Tokenizer& tokenizer);

class AnswerWork : public Work {
 public:
  enum class Explain { kNo, kYes };
  struct Books {
    Metrics& metrics;
    Records& records;
    Tokenizer tokenizer;
    FinishedRecord record;  // the ids and the path; the rest is filled in at the end
    Explain explain = Explain::kNo;
    std::vector<ToolCallReader> calls{};  // one for each choice; empty: the answer is text
  };

  AnswerWork(std::unique_ptr<Generation> generation, std::unique_ptr<AnswerWriter> writer, Books books);
  ~AnswerWork() override;

  void on_news(std::function<void()> wake) override { generation_->on_news(std::move(wake)); }
  Progress take() override;
  Progress give_up(const std::string& why) override;

 private:
  AnswerReport report() const;
  std::string write(Generation::News news);
  Progress failed(const ApiError& error);
  void write_down();

  std::unique_ptr<Generation> generation_;
  std::unique_ptr<AnswerWriter> writer_;
  Books books_;
  bool begun_ = false;
  bool written_down_ = false;
};

}  // namespace kvasir
