// gpt-oss' messages ("harmony"): <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…
//
// What is analysed is reasoning; a message to functions.NAME is a call of that tool; what else there is, is text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer/tool_call_reader.h"

namespace kvasir {

class ChannelReader : public PartReader {
 public:
  enum class Begins { kInHead, kInText };  // kInText: the prompt has opened the message itself

  // Without `tools` nothing is a call.
  ChannelReader(const std::optional<ToolReading>& tools, Begins begins);
  ChannelReader(const ChannelReader&) = delete;
  ChannelReader& operator=(const ChannelReader&) = delete;

  std::vector<AnswerPart> push(std::string_view text) override;
  std::vector<AnswerPart> finish() override;
  bool in_reasoning() const override { return state_ == State::kBody && body_ == Body::kReasoning; }

 private:
  enum class State { kHead, kBody, kBetween, kPlain, kDone };
  enum class Body { kText, kReasoning, kCall };
  enum class Step { kAgain, kWait };

  Step step();
  Step read_head();
  Step read_body();
  Step read_between();
  void open_body(std::string_view head);
  void give(std::string_view text);

  PartList out_;
  std::optional<CallCollector> calls_;
  State state_;
  Body body_ = Body::kText;
  bool first_ = true;  // nothing of the answer was understood yet
  std::string held_;
};

}  // namespace kvasir
