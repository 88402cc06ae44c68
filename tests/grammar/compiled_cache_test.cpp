#include "grammar/compiled_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

TEST(GrammarCache, CompilesASchemaOnce) {
  GrammarCache cache;
  const auto one = cache.json_schema(R"({"type":"null"})");
  EXPECT_EQ(cache.json_schema(R"({"type":"null"})"), one);
  EXPECT_NE(cache.json_schema(R"({"type":"boolean"})"), one);
  EXPECT_EQ(cache.json_object(), cache.json_object());
  EXPECT_TRUE(accepts(cache.json_object(), R"({"a":[1,{}]})"));
  EXPECT_FALSE(accepts(cache.json_object(), "[]"));
  EXPECT_THROW(cache.json_schema("{"), Error);
  EXPECT_THROW(cache.json_schema("{"), Error);
}

TEST(GrammarCache, ForgetsTheLongestUnused) {
  GrammarCache one;
  one.json_schema(R"({"const":"0"})");
  const std::size_t bytes = one.bytes();
  GrammarCache cache(3 * bytes + bytes / 2);
  const auto first = cache.json_schema(R"({"const":"0"})");
  for (int i = 1; i < 6; ++i) {
    cache.json_schema(fmt::format(R"({{"const":"{}"}})", i));
    EXPECT_EQ(cache.json_schema(R"({"const":"0"})"), first);  // used all the time
  }
  EXPECT_GE(cache.bytes(), 3 * bytes);
  EXPECT_LT(cache.bytes(), 4 * bytes);
  GrammarCache tiny(1);
  EXPECT_EQ(tiny.json_schema("true"), tiny.json_schema("true"));  // the latest stays
}

double cpu_seconds(GrammarCache& cache, const std::string& schema) {
  const std::clock_t before = std::clock();
  EXPECT_THROW(cache.json_schema(schema), Error);
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

TEST(GrammarCache, ARefusedSchemaIsNotCompiledAgain) {
  GrammarCache cache;
  const std::string slow = R"({"type":"string","pattern":"^.*a.{14}$"})";
  const double first = cpu_seconds(cache, slow);
  EXPECT_LT(cpu_seconds(cache, slow), first / 10);
  EXPECT_LT(first, 2);  // generous: builds with sanitizers take ten times as long
  std::string said[2];
  for (std::string& words : said) {
    try {
      cache.json_schema(slow);
    } catch (const Error& error) {
      words = error.what();
      EXPECT_EQ(error.kind(), Error::Kind::kCapacity);
    }
  }
  EXPECT_EQ(said[0], said[1]);
  EXPECT_NE(said[0], "");
}

TEST(GrammarCache, WhatIsSaidOfRefusedSchemasIsBoundedToo) {
  GrammarCache cache(20'000);
  for (int i = 0; i < 1000; ++i) EXPECT_THROW(cache.json_schema(fmt::format("{{\"type\":\"no {}\"}}", i)), Error);
  EXPECT_LE(cache.bytes(), 20'000U);
  EXPECT_GT(cache.bytes(), 0U);
}

TEST(GrammarCache, ServesThreadsAtOnce) {
  GrammarCache cache(20'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const int value = (i + t) % 7;
        EXPECT_TRUE(accepts(cache.json_schema(fmt::format(R"({{"const":{}}})", value)), std::to_string(value)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvasir::grammar::testing
