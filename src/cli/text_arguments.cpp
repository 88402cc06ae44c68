#include "cli/text_arguments.h"

#include <iostream>

namespace kvasir {

std::vector<std::string> texts_of_arguments(std::span<const std::string> arguments) {
  std::vector<std::string> out;
  for (const std::string& text : arguments) {
    if (text != "-") {
      out.push_back(text);
      continue;
    }
    for (std::string line; std::getline(std::cin, line);) out.push_back(line);
  }
  return out;
}

}  // namespace kvasir
