#include "grammar/compiled_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

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
  const std::size_t bytes = compile_json_schema(R"({"const":"0"})")->bytes();
  GrammarCache cache(3 * bytes + bytes / 2);
  const auto first = cache.json_schema(R"({"const":"0"})");
  for (int i = 1; i < 6; ++i) {
    cache.json_schema(fmt::format(R"({{"const":"{}"}})", i));
    EXPECT_EQ(cache.json_schema(R"({"const":"0"})"), first);  // used all the time
  }
  EXPECT_EQ(cache.bytes(), 3 * bytes);
  GrammarCache tiny(1);
  EXPECT_EQ(tiny.json_schema("true"), tiny.json_schema("true"));  // the latest stays
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
