#include "server/answer/formats/tool_formats.h"

#include <algorithm>

#include "base/check.h"
#include "server/answer/formats/gemma_calls.h"
#include "server/answer/formats/json_calls.h"
#include "server/answer/formats/named_calls.h"
#include "server/answer/formats/python_calls.h"
#include "server/answer/formats/tagged_calls.h"

namespace kvasir {
namespace {

using Of = ToolFormat::Mark::Of;
using Where = ToolFormat::Where;

std::unique_ptr<CallParser> hermes_calls() { return json_calls("</tool_call>"); }
std::unique_ptr<CallParser> bare_calls() { return json_calls(""); }
std::unique_ptr<CallParser> nemotron_calls() { return json_calls("</TOOLCALL>"); }
std::unique_ptr<CallParser> listed_calls() { return json_calls("</tool_calls>"); }

// The first whose words a template has is taken, so what is more particular comes first.
const std::vector<ToolFormat>& all_tool_formats() {
  static const std::vector<ToolFormat> kFormats{
      // gpt-oss: a call is a message of its own, which the reader of channels reads.
      {.name = "harmony",
       .marks = {},
       .words = {"<|channel|>commentary"},
       .opening = "<|channel|>commentary <|constrain|>json<|message|>"},
      {.name = "deepseek_dsml",
       .marks = {{"<｜DSML｜function_calls>", Of::kFormat, dsml_function_calls},
                 {"<｜DSML｜tool_calls>", Of::kFormat, dsml_tool_calls}},
       .words = {"DSML"},
       .tokens = {"｜DSML｜"}},
      {.name = "deepseek",
       .marks = {{"<｜tool▁calls▁begin｜>"}},
       .calls = deepseek_calls,
       .words = {"<｜tool▁calls▁begin｜>"},
       .tokens = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
                  "<｜tool▁calls▁end｜>"}},
      {.name = "kimi_k2",
       .marks = {{"<|tool_calls_section_begin|>"}},
       .calls = kimi_calls,
       .words = {"<|tool_calls_section_begin|>"},
       .tokens = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                  "<|tool_call_end|>", "<|tool_calls_section_end|>"}},
      {.name = "minimax_m2",
       .marks = {{"<minimax:tool_call>"}},
       .calls = minimax_calls,
       .words = {"<minimax:tool_call>"},
       .tokens = {"<minimax:tool_call>", "</minimax:tool_call>"}},
      {.name = "gemma4",
       .marks = {{"<|tool_call>"}},
       .calls = gemma_calls,
       .words = {"<|tool_call>call:"},
       .tokens = {"<|tool_call>", "<tool_call|>", "<|\"|>"}},
      {.name = "lfm2",
       .marks = {{"<|tool_call_start|>"}},
       .calls = python_calls,
       .words = {"<|tool_call_start|>", "<|tool_list_start|>"},
       .tokens = {"<|tool_call_start|>", "<|tool_call_end|>"}},
      {.name = "seed_oss",
       .marks = {{"<seed:tool_call>"}},
       .calls = seed_calls,
       .words = {"<seed:tool_call>"},
       .tokens = {"<seed:tool_call>", "</seed:tool_call>"}},
      {.name = "glm4",
       .marks = {{"<tool_call>"}},
       .calls = glm_calls,
       .words = {"<arg_key>"},
       .tokens = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}},
      // Some of its models forget the first tag.
      {.name = "qwen3_coder",
       .marks = {{"<tool_call>"}, {"<function=", Of::kCall}},
       .calls = qwen_coder_calls,
       .words = {"<parameter="},
       .tokens = {"<tool_call>", "</tool_call>"}},
      {.name = "mistral",
       .marks = {{"[TOOL_CALLS]"}},
       .calls = mistral_calls,
       .words = {"[TOOL_CALLS]"},
       .tokens = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
       .forced = ToolFormat::Forced::kList,
       .id_digits = 9},  // its templates take no other ids
      {.name = "granite",
       .marks = {{"<|tool_call|>"}},
       .calls = bare_calls,
       .words = {"<|tool_call|>"},
       .tokens = {"<|tool_call|>"}},
      {.name = "nemotron",
       .marks = {{"<TOOLCALL>"}},
       .calls = nemotron_calls,
       .words = {"<TOOLCALL>"},
       .tokens = {"<TOOLCALL>", "</TOOLCALL>"}},
      {.name = "hermes",
       .marks = {{"<tool_call>"}},
       .calls = hermes_calls,
       .words = {"<tool_call>"},
       .tokens = {"<tool_call>", "</tool_call>"},
       .opening = "<tool_call>\n"},
      {.name = "tool_calls",  // Apriel, MiniMax-M1
       .marks = {{"<tool_calls>"}},
       .calls = listed_calls,
       .words = {"<tool_calls>"},
       .tokens = {"<tool_calls>", "</tool_calls>"}},
      {.name = "llama3",
       .marks = {{"<|python_tag|>"}, {"{", Of::kCall}},
       .where = Where::kAtStart,
       .calls = bare_calls,
       .words = {"<|python_tag|>", "ipython"},
       .tokens = {"<|python_tag|>"},
       .arguments = "parameters"},
  };
  return kFormats;
}

}  // namespace

std::span<const ToolFormat> tool_formats() { return all_tool_formats(); }

const ToolFormat* find_tool_format(std::string_view name) {
  const auto found = std::ranges::find(all_tool_formats(), name, &ToolFormat::name);
  return found == all_tool_formats().end() ? nullptr : &*found;
}

const ToolFormat& tool_format_of(const std::string& template_source) {
  const auto says = [&](std::string_view word) { return template_source.find(word) != std::string::npos; };
  for (const ToolFormat& format : all_tool_formats()) {
    if (std::ranges::any_of(format.words, says)) return format;
  }
  const ToolFormat* hermes = find_tool_format("hermes");
  CHECK(hermes != nullptr);
  return *hermes;
}

const ToolFormat& forced_format() {
  static const ToolFormat kForced{.name = "json",
                                  .marks = {{"{", Of::kCall}, {"[", Of::kCall}, {"<|python_tag|>"}},
                                  .where = Where::kAtStart,
                                  .calls = bare_calls};
  return kForced;
}

std::string tool_format_names() {
  std::string out;
  for (const ToolFormat& format : all_tool_formats()) out += (out.empty() ? "" : ", ") + std::string(format.name);
  return out;
}

}  // namespace kvasir
