// An answer's text as its parts: first what the model thought, then calls of tools in what is left.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "server/answer/channel_reader.h"
#include "server/answer/reasoning_reader.h"

namespace kvasir {

// How the answers to a request are read.
struct AnswerReading {
  const ReasoningFormat* reasoning = nullptr;  // null: the model has no such habit, or its answer is held to a form
  AnswerBegins begins = AnswerBegins::kBefore;
  std::optional<ToolReading> tools{};  // nullopt: nothing is a call

  bool plain() const { return reasoning == nullptr && !tools; }  // all is text
};

class AnswerReader {
 public:
  explicit AnswerReader(const AnswerReading& reading);

  std::vector<AnswerPart> push(std::string_view text);
  std::vector<AnswerPart> finish();

  size_t calls() const { return calls_; }
  bool in_reasoning() const { return first_ && first_->in_reasoning(); }

 private:
  std::vector<AnswerPart> read_on(std::vector<AnswerPart> parts);

  std::unique_ptr<PartReader> first_;     // null: nothing to part
  std::unique_ptr<ToolCallReader> last_;  // null: calls were read by then, or there are none
  size_t calls_ = 0;
};

}  // namespace kvasir
