#include "base/json.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kvasir {
namespace {

JsonTree parsed(std::string_view text) {
  std::string problem;
  auto tree = JsonTree::parse(text, problem);
  EXPECT_TRUE(tree) << text << ": " << problem;
  return std::move(*tree);
}

std::string problem_of(std::string_view text) {
  std::string problem;
  EXPECT_FALSE(JsonTree::parse(text, problem)) << text;
  return problem;
}

TEST(Json, EveryKindOfValueIsItselfAndNothingElse) {
  const JsonTree tree = parsed(R"({"n":null,"t":true,"f":false,"i":-7,"d":2.5,"s":"a\u00e9\n","a":[],"o":{}})");
  const JsonValue root = tree.root();
  EXPECT_TRUE(root.find("n")->is_null());
  EXPECT_EQ(root.find("t")->flag(), true);
  EXPECT_EQ(root.find("f")->flag(), false);
  EXPECT_EQ(root.find("i")->integer(), -7);
  EXPECT_EQ(root.find("i")->number(), -7.0);
  EXPECT_EQ(root.find("d")->number(), 2.5);
  EXPECT_EQ(root.find("s")->text(), "a\u00e9\n");
  EXPECT_TRUE(root.find("a")->is_array());
  EXPECT_TRUE(root.find("o")->is_object());

  EXPECT_EQ(root.find("d")->integer(), std::nullopt);
  EXPECT_EQ(root.find("i")->flag(), std::nullopt);
  EXPECT_EQ(root.find("s")->number(), std::nullopt);
  EXPECT_EQ(root.find("t")->integer(), std::nullopt);
  EXPECT_EQ(root.find("a")->text(), std::nullopt);
  EXPECT_FALSE(root.find("missing"));
  EXPECT_FALSE(root.find("s")->find("x"));
  EXPECT_EQ(root.find("s")->items().size(), 0U);
  EXPECT_FALSE(root.find("s")->items().begin() != root.find("s")->items().end());
}

TEST(Json, IntegersKeepAllTheirBitsAndLargerOnesAreNumbers) {
  const JsonTree tree = parsed("[9223372036854775807, -9223372036854775808, 9223372036854775808, 1e3, 1.0]");
  std::vector<std::optional<std::int64_t>> integers;
  for (const JsonValue item : tree.root().items()) integers.push_back(item.integer());
  EXPECT_EQ(integers, (std::vector<std::optional<std::int64_t>>{INT64_MAX, INT64_MIN, {}, {}, {}}));
}

TEST(Json, WhatIsInsideComesInTheOrderOfTheTextAndIsSkippedWhole) {
  const JsonTree tree = parsed(R"({"z":[1,[2,{"q":[3]}],4],"a":{"b":{"c":"d"},"e":5},"z":6})");
  std::vector<std::string> keys;
  for (const auto [key, value] : tree.root().members()) keys.emplace_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"z", "a", "z"}));
  EXPECT_EQ(tree.root().members().size(), 3U);
  EXPECT_TRUE(tree.root().find("z")->is_array()) << "the first of two equal keys";

  const JsonValue list = *tree.root().find("z");
  EXPECT_EQ(list.items().size(), 3U);
  std::vector<std::optional<std::int64_t>> items;
  for (const JsonValue item : list.items()) items.push_back(item.integer());
  EXPECT_EQ(items, (std::vector<std::optional<std::int64_t>>{1, std::nullopt, 4}));
  EXPECT_EQ(tree.root().find("a")->find("b")->find("c")->text(), "d");
  EXPECT_EQ(tree.root().find("a")->find("e")->integer(), 5);
}

TEST(Json, AnyValueMayBeTheRoot) {
  EXPECT_EQ(parsed(" 12 ").root().integer(), 12);
  EXPECT_EQ(parsed("\"\"").root().text(), "");
  EXPECT_TRUE(parsed("null").root().is_null());
}

TEST(Json, WhatIsNoDocumentIsRefusedWithItsPlace) {
  for (const char* text : {"", "  ", "{", "[1,]", "{\"a\":}", "{\"a\" 1}", "[1] [2]", "{a:1}", "'a'", "nul", "01",
                           "+1", "\"\\ud800\"", "\"\xff\"", "\"\xc0\xaf\"", "\"a\nb\"", "\"open", "NaN", "[1, 2"}) {
    EXPECT_NE(problem_of(text), "") << text;
  }
  EXPECT_NE(problem_of("[1, x]").find("byte 5"), std::string::npos) << problem_of("[1, x]");
  EXPECT_NE(problem_of("[1e999]").find("too large"), std::string::npos);
}

TEST(Json, NestingHasALimit) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(parsed(nested(1024)).root().items().size(), 1U);
  EXPECT_NE(problem_of(nested(1025)).find("1024 deep"), std::string::npos);
  EXPECT_NE(problem_of(std::string(1000000, '[')).find("1024 deep"), std::string::npos);
}

}  // namespace
}  // namespace kvasir
