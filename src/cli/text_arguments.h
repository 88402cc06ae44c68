// Texts of a command line.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace kvasir {

// Each line of the standard input is one, where "-" stands for it.
std::vector<std::string> texts_of_arguments(std::span<const std::string> arguments);

}  // namespace kvasir
