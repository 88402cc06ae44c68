#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace kvasir {
namespace {

// In characters as a terminal shows them, of texts that have no wide ones.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & '\xc0') != '\x80'; }));
}

std::string padded(const std::string& text, size_t width, bool left) {
  const std::string spaces(width - std::min(width, width_of(text)), ' ');
  return left ? text + spaces : spaces + text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string markdown_row(const std::vector<std::string>& row) {
  std::string out = "|";
  for (const std::string& cell : row) out += " " + escaped(cell) + " |";
  return out + "\n";
}

}  // namespace

std::string as_aligned(const TextTable& table) {
  std::vector<size_t> widths(table.header.size());
  const auto measure = [&](const std::vector<std::string>& row) {
    CHECK(row.size() == widths.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  };
  measure(table.header);
  for (const auto& row : table.rows) measure(row);
  std::string out;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += "  " + padded(row[i], widths[i], i == 0);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  if (std::ranges::any_of(table.header, [](const std::string& cell) { return !cell.empty(); })) add(table.header);
  for (const auto& row : table.rows) add(row);
  return out;
}

std::string as_markdown(const TextTable& table) {
  std::string out = markdown_row(table.header) + "|---|";
  for (size_t i = 1; i < table.header.size(); ++i) out += "---:|";
  out += "\n";
  for (const auto& row : table.rows) out += markdown_row(row);
  return out;
}

}  // namespace kvasir
