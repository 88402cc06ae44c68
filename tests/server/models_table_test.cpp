// The table of docs/models.md that says what is there for each family is what the code says: which weights are read,
// how calls of tools are written, what a known model caches, how many fixtures hold the family to transformers.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "layout/kv_layout.h"
#include "model/families/family.h"
#include "model/known_models.h"
#include "server/answer/formats/tool_formats.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

using Cells = std::vector<std::string>;

enum Column : size_t { kTypes, kWeights, kTokenizers, kTools, kExample, kBytes, kDevices, kFixtures, kColumns };

std::filesystem::path fixtures() { return golden_dir("gqa").parent_path(); }

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string_view::npos ? ""
                                         : std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

Cells split(std::string_view text, char at) {
  Cells out;
  while (true) {
    const size_t end = text.find(at);
    out.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

// "`a`, `b`" is a and b.
Cells names_in(std::string_view cell) {
  Cells out;
  for (std::string& word : split(cell, ',')) {
    std::erase(word, '`');
    if (!word.empty()) out.push_back(std::move(word));
  }
  return out;
}

// The rows of the table under "## What is there for each family".
std::vector<Cells> rows_of_the_table() {
  std::ifstream page(fixtures().parent_path().parent_path().parent_path() / "docs/models.md");
  std::vector<Cells> out;
  bool there = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) there = line == "## What is there for each family";
    if (!there || !line.starts_with("| `") || line.starts_with("| `model_type`")) continue;
    out.push_back(split(std::string_view(line).substr(1, line.size() - 2), '|'));
  }
  return out;
}

// By model_type, of what golden_test.cpp, encoders_test.cpp, rerankers_test.cpp and encoder_decoders_test.cpp of
// tests/model compare on every backend.
std::map<std::string, int> fixtures_by_type() {
  std::map<std::string, int> out;
  for (const auto& folder : std::filesystem::directory_iterator(fixtures())) {
    const auto has = [&](const char* file) { return exists(folder.path() / file); };
    if (!has("golden.safetensors") && !has("vectors.safetensors") && !has("scores.safetensors") &&
        !has("answers.safetensors")) {
      continue;
    }
    ++out[std::string(load_config(folder.path()).family_name())];
  }
  return out;
}

std::int64_t bytes_per_token_of(const ModelSpec& spec) {
  std::int64_t bytes = 0;
  for (const KvGroup& group : kv_groups(spec, uniform_policy(KvFormat::kF16))) bytes += bytes_per_token(group);
  return bytes;
}

std::string with_commas(std::int64_t number) {
  std::string out = std::to_string(number);
  for (auto at = std::ssize(out) - 3; at > 0; at -= 3) out.insert(static_cast<size_t>(at), ",");
  return out;
}

std::string weights_of(const Family& family) {
  return family.gguf.architecture.empty() ? "safetensors" : "safetensors, GGUF";
}

// What the code says a row is, given its types and its example.
Cells expected(const Cells& row, std::map<std::string, int>& compared) {
  Cells out = row;
  std::set<std::string> weights;
  int all = 0;
  for (const std::string& type : names_in(row[kTypes])) {
    const Family& family = family_named(type, "docs/models.md");
    weights.insert(weights_of(family));
    all += std::exchange(compared[std::string(family.name)], 0);
  }
  out[kWeights] = weights.size() == 1 ? *weights.begin() : "differ";
  out[kFixtures] = std::to_string(all);
  out[kDevices] = "CPU, GPU";
  if (row[kExample] == "-") {
    out[kBytes] = "-";
    return out;
  }
  const ModelSpec example = shape_named(row[kExample]);
  const Cells types = names_in(row[kTypes]);
  EXPECT_TRUE(std::ranges::any_of(
      types, [&](const std::string& type) { return &family_named(type, "docs/models.md") == example.family; }))
      << row[kExample] << " is no example of " << row[kTypes];
  out[kBytes] = with_commas(bytes_per_token_of(example));
  return out;
}

TEST(ModelsTable, SaysWhatTheCodeSays) {
  std::map<std::string, int> compared = fixtures_by_type();
  std::map<const Family*, int> told;
  for (const Cells& row : rows_of_the_table()) {
    ASSERT_EQ(row.size(), kColumns) << row[kTypes];
    const Cells right = expected(row, compared);
    EXPECT_EQ(row, right) << fmt::format("| {} |", fmt::join(right, " | "));
    std::set<const Family*> of_row;
    for (const std::string& type : names_in(row[kTypes])) of_row.insert(&family_named(type, "docs/models.md"));
    for (const Family* family : of_row) ++told[family];
    for (const std::string& kind : names_in(row[kTokenizers])) {
      EXPECT_TRUE(kind == "BPE" || kind == "SentencePiece" || kind == "WordPiece") << kind;
    }
    for (const std::string& format : names_in(row[kTools])) {
      EXPECT_TRUE(format == "-" || find_tool_format(format) != nullptr) << format;
    }
  }
  for (const Family* family : families()) EXPECT_EQ(told[family], 1) << family->name << " has not one row";
  for (const auto& [type, rest] : compared) EXPECT_EQ(rest, 0) << "no row counts the fixtures of " << type;
}

}  // namespace
}  // namespace kvasir::testing
