// What somebody may have meant who typed a command line that is none.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_tree.h"

namespace kvasir {

// One sentence with what is wrong and what may have been meant. `line`: the arguments, without the program's name.
// Empty: every word of it is known, and something else is wrong.
std::string explain_unknown(const CommandInfo& program, const std::vector<std::string>& line);

// The command that a line names, as far as it does: "kvasir keys add".
std::string called_command(const CommandInfo& program, const std::vector<std::string>& line);

// How many letters must be added, taken away, changed or swapped with the next to make one of the other.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace kvasir
