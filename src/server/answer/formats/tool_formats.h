// The ways in which models write calls of tools: one line each, chosen by what the chat template says.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer/formats/call_parser.h"

namespace kvasir {

struct ToolFormat {
  // What begins a run of calls. Where it is not consumed, the calls themselves begin with it.
  struct Mark {
    std::string_view text;
    enum class Of { kFormat, kCall } of = Of::kFormat;
    MakeCallParser calls = nullptr;  // null: the format's
  };
  enum class Where { kAnywhere, kAtStart };  // kAtStart: the answer is calls from its beginning on, or has none
  enum class Forced { kOne, kList };         // how several calls that must come are written: not at all, or as a list

  std::string_view name;  // of --tool-format
  std::vector<Mark> marks;
  Where where = Where::kAnywhere;
  MakeCallParser calls = nullptr;
  std::vector<std::string_view> words{};  // one of them in a template: its model writes this way; empty: none says so
  std::vector<std::string_view> tokens{};  // its marks and more, which may be special tokens and must be seen
  std::string_view opening{};              // what the model writes before a call's JSON, for a call that must come
  Forced forced = Forced::kOne;
  const char* arguments = "arguments";  // their name, where a call is JSON
  size_t id_digits = 0;                 // of a call's id, and nothing before them; 0: as the API likes them
};

std::span<const ToolFormat> tool_formats();

const ToolFormat* find_tool_format(std::string_view name);  // null: there is none
const ToolFormat& tool_format_of(const std::string& template_source);
// {"name": …, "arguments": {…}}, or a list of them: what an answer that must be a call is held to.
const ToolFormat& forced_format();

std::string tool_format_names();  // "hermes, qwen3_coder, …"

}  // namespace kvasir
