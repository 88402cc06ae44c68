#include "server/answer/formats/reasoning_formats.h"

#include <algorithm>

namespace kvasir {
namespace {

using Kind = ReasoningFormat::Kind;
using AtOrAnywhere = ReasoningFormat::Where;

// The first whose words a template has is taken.
const std::vector<ReasoningFormat>& all_reasoning_formats() {
  static const std::vector<ReasoningFormat> kFormats{
      {.name = "harmony",
       .kind = Kind::kChannels,
       .words = {"<|channel|>analysis"},
       .tokens = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"},
       .opening = "<|channel|>final<|message|>"},
      {.name = "gemma4",
       .open = "<|channel>thought\n",
       .close = "<channel|>",
       .where = AtOrAnywhere::kAnywhere,
       .words = {"<|channel>"},
       .tokens = {"<|channel>", "<channel|>"}},
      {.name = "mistral",
       .open = "[THINK]",
       .close = "[/THINK]",
       .where = AtOrAnywhere::kAnywhere,
       .words = {"[THINK]"},
       .tokens = {"[THINK]", "[/THINK]"}},
      {.name = "seed_oss",
       .open = "<seed:think>",
       .close = "</seed:think>",
       .words = {"<seed:think>"},
       .tokens = {"<seed:think>", "</seed:think>"}},
      {.name = "granite",
       .open = "<think>",
       .close = "</think>",
       .answer_open = "<response>",
       .answer_close = "</response>",
       .words = {"<think></think>", "<response></response>"},
       .tokens = {"<think>", "</think>"}},
      // Kimi's models may call a tool without a word that they are done thinking.
      {.name = "think",
       .open = "<think>",
       .close = "</think>",
       .cut_by = {"<|tool_calls_section_begin|>"},
       .words = {"<think>"},
       .tokens = {"<think>", "</think>"}},
  };
  return kFormats;
}

}  // namespace

std::span<const ReasoningFormat> reasoning_formats() { return all_reasoning_formats(); }

const ReasoningFormat* find_reasoning_format(std::string_view name) {
  const auto found = std::ranges::find(all_reasoning_formats(), name, &ReasoningFormat::name);
  return found == all_reasoning_formats().end() ? nullptr : &*found;
}

const ReasoningFormat* reasoning_format_of(const std::string& template_source) {
  const auto says = [&](std::string_view word) { return template_source.find(word) != std::string::npos; };
  for (const ReasoningFormat& format : all_reasoning_formats()) {
    if (std::ranges::all_of(format.words, says)) return &format;
  }
  return nullptr;
}

std::string reasoning_format_names() {
  std::string out;
  for (const ReasoningFormat& format : all_reasoning_formats())
    out += (out.empty() ? "" : ", ") + std::string(format.name);
  return out;
}

}  // namespace kvasir
