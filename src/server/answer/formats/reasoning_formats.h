// The ways in which models write what they think before they answer: one line each, chosen by what the chat template
// says.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir {

struct ReasoningFormat {
  enum class Kind { kMarks, kChannels };     // kChannels: gpt-oss' messages, which hold reasoning, calls and answer
  enum class Where { kAtStart, kAnywhere };  // of the opening mark. One that is ordinary text may also be talked of.

  std::string_view name;  // of --reasoning-format
  Kind kind = Kind::kMarks;
  std::string_view open{};
  std::string_view close{};
  Where where = Where::kAtStart;
  std::vector<std::string_view> cut_by{};  // ends it as well, and is no part of it: a call within the thoughts
  std::string_view answer_open{};          // may stand around the answer, and is left out of it
  std::string_view answer_close{};
  std::vector<std::string_view> words{};   // all of them in a template: its model writes this way
  std::vector<std::string_view> tokens{};  // its marks, which may be special tokens and must be seen
  std::string_view opening{};              // what stands before an answer that is held to a form from its first token
};

std::span<const ReasoningFormat> reasoning_formats();

const ReasoningFormat* find_reasoning_format(std::string_view name);             // null: there is none
const ReasoningFormat* reasoning_format_of(const std::string& template_source);  // null: it has no word of it

std::string reasoning_format_names();  // "harmony, think, …"

}  // namespace kvasir
