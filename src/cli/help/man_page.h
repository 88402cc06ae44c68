// The program's manual page, kvasir(1), in the macros of man(7).
#pragma once

#include <string>

#include "cli/help/command_tree.h"

namespace kvasir {

std::string man_page(const CommandInfo& program, const std::string& version);

}  // namespace kvasir
