// What shells must know to complete the program's command lines.
#pragma once

#include <string>

#include "cli/help/command_tree.h"

namespace kvasir {

std::string bash_completions(const CommandInfo& program);
std::string zsh_completions(const CommandInfo& program);
std::string fish_completions(const CommandInfo& program);

}  // namespace kvasir
