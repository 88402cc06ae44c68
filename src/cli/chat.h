// A chat on the terminal: line editing, history, a few commands.
#pragma once

#include <string>
#include <string_view>

#include "kvasir/kvasir.h"

namespace kvasir {

struct ChatSettings {
  GenerateOptions generate;
  std::string system;
};

// Runs until /bye or Ctrl-D. Ctrl-C stops the answer.
void chat_on_terminal(Llm& llm, ChatSettings settings);

// "/set temp 0.5": changes one setting. Returns what to print; throws Error on an unknown name or a bad value.
std::string apply_setting(std::string_view arguments, ChatSettings& settings);

// "/show", "/show cache", "/show model", "/show settings".
std::string show(std::string_view what, const Llm& llm, const ChatSettings& settings);

}  // namespace kvasir
