// Calls in tags, each argument in one of its own: Qwen3-Coder, Seed-OSS, GLM, MiniMax, DeepSeek from V3.2 on.
//
// What stands between the tags is text. The tool's schema says what it is in JSON; strings are given out as they
// come.
#pragma once

#include "server/answer/formats/call_parser.h"

namespace kvasir {

struct TagSyntax {
  std::string_view call_begin;   // before the name; empty: the name comes at once
  std::string_view name_end;     // behind it; empty: what is no letter of a name ends it
  std::string_view param_begin;  // before an argument's name
  std::string_view key_end;      // behind it
  std::string_view value_begin;  // then, perhaps after attributes; empty: the value comes at once
  std::string_view value_end;
  std::string_view call_end;
  std::string_view section_end;                                       // of all calls; empty: a mark has one call
  enum class Newlines { kText, kAround } newlines = Newlines::kText;  // kAround: one before and one behind each value
};

std::unique_ptr<CallParser> qwen_coder_calls();  // <function=NAME><parameter=KEY>VALUE</parameter></function>
std::unique_ptr<CallParser> seed_calls();        // the same within <seed:tool_call>
std::unique_ptr<CallParser> glm_calls();         // NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>
std::unique_ptr<CallParser> minimax_calls();  // <invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>
// The same with ｜DSML｜ in each tag, and string="true" or "false": V3.2's name of the whole, and V4's.
std::unique_ptr<CallParser> dsml_function_calls();
std::unique_ptr<CallParser> dsml_tool_calls();

}  // namespace kvasir
