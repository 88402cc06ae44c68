// Rows of a table for people: aligned on a terminal, or as Markdown.
#pragma once

#include <string>
#include <vector>

namespace kvasir {

// The first column is text, the others are numbers, aligned to the right.
struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header
};

std::string as_aligned(
    const TextTable& table);  // indented by two spaces; the header first, unless all of it is empty
std::string as_markdown(const TextTable& table);  // what Markdown means by '|' is escaped

}  // namespace kvasir
