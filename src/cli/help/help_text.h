// --help, as a terminal shows it: usage, grouped options, environment, examples.
#pragma once

#include <string>

#include "cli/help/command_tree.h"

namespace kvasir {

std::string help_text(const CommandInfo& command, int width);

// How wide help may be: the terminal that stdout is, within reason; 100 where it is none.
int help_width();

}  // namespace kvasir
