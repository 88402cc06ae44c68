// Calls whose name stands before their arguments, which are JSON: Mistral's newer models, DeepSeek's, Kimi's.
#pragma once

#include "server/answer/formats/call_parser.h"

namespace kvasir {

// What stands before a call's arguments.
struct NamedHead {
  enum class Result { kHead, kMore, kOther } result = Result::kOther;
  std::string name{};
  std::string id{};      // empty: there is none
  size_t arguments = 0;  // where their brace is
};

struct NamedSyntax {
  std::string_view begin;  // of each call; empty: the head comes at once
  NamedHead (*head)(std::string_view text);
  std::string_view fence;        // may stand behind the arguments
  std::string_view end;          // of each call; empty: none
  std::string_view section_end;  // of all of them; empty: a mark has one call
};

std::unique_ptr<CallParser> named_calls(const NamedSyntax& syntax);

std::unique_ptr<CallParser> mistral_calls();  // name[ARGS]{…}, or a list of JSON
std::unique_ptr<CallParser>
deepseek_calls();  // V3 and R1: function<｜tool▁sep｜>name, fenced JSON; V3.1: name<｜tool▁sep｜>{…}
std::unique_ptr<CallParser> kimi_calls();  // functions.name:0<|tool_call_argument_begin|>{…}

}  // namespace kvasir
