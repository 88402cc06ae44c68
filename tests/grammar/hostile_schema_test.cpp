// Schemas made to hurt: each ends in an Error or a grammar of bounded size, soon.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <ctime>

#include "base/error.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

// The error's text; empty when the schema compiles to a grammar of sensible size.
std::string outcome(const std::string& schema) {
  try {
    const auto grammar = compile_json_schema(schema);
    EXPECT_LE(grammar->bytes(), std::size_t{64} << 20);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(HostileSchema, Nesting) {
  EXPECT_NE(outcome(repeated("[", 100'000)), "");
  EXPECT_NE(outcome(repeated(R"({"items":)", 100'000) + "{}" + repeated("}", 100'000)), "");
  EXPECT_NE(outcome(repeated(R"({"anyOf":[)", 5'000) + "{}" + repeated("]}", 5'000)), "");
  EXPECT_EQ(outcome(repeated(R"({"items":)", 100) + "{}" + repeated("}", 100)), "");
}

TEST(HostileSchema, ChainsOfReferences) {
  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 2000; ++i) chain += fmt::format(R"("d{}":{{"$ref":"#/$defs/d{}"}},)", i, i + 1);
  EXPECT_NE(outcome(chain + R"("d2000":{"type":"null"}}})"), "");
  // Doubling at each step: 2^n ways, but each schema is one.
  std::string doubling = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 60; ++i) {
    doubling += fmt::format(
        R"("d{0}":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d{1}"}},"b":{{"$ref":"#/$defs/d{1}"}}}}}},)",
        i, i + 1);
  }
  EXPECT_EQ(outcome(doubling + R"("d60":{"type":"null"}}})"), "");
  std::string unions = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 60; ++i) {
    unions += fmt::format(R"("d{0}":{{"anyOf":[{{"$ref":"#/$defs/d{1}"}},{{"$ref":"#/$defs/d{1}"}}]}},)", i, i + 1);
  }
  EXPECT_NE(outcome(unions + R"("d60":{"type":"null"}}})"), "never");
}

TEST(HostileSchema, RecursionWithoutAnEnd) {
  EXPECT_NE(outcome(R"({"$ref":"#"})"), "");
  EXPECT_NE(outcome(R"({"anyOf":[{"$ref":"#"}]})"), "");
  EXPECT_NE(outcome(R"({"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]})"), "");
  EXPECT_NE(outcome(R"({"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/b"},"minItems":1},
                        "b":{"type":"array","items":{"$ref":"#/$defs/a"},"minItems":1}},"$ref":"#/$defs/a"})"),
            "");
  // With an end, be it an empty array, it is a schema like others.
  EXPECT_EQ(outcome(R"({"type":"array","items":{"$ref":"#"}})"), "");
  EXPECT_EQ(outcome(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})"), "");
}

// A property that nothing can satisfy is one that is never written.
TEST(HostileSchema, DeadEndsAreNotEntered) {
  const auto grammar = compile_json_schema(
      R"({"type":"object","properties":{"x":{"type":"object","properties":{"y":{"$ref":"#/properties/x"}},"required":["y"]},
          "xz":{"type":"null"}}})");
  EXPECT_TRUE(accepts(grammar, "{}"));
  EXPECT_TRUE(accepts(grammar, R"({"xz":null})"));
  Matcher matcher(grammar);
  EXPECT_TRUE(matcher.accept(R"({"x)"));
  EXPECT_FALSE(matcher.can_accept("\""));
}

TEST(HostileSchema, RecursionThatGrows) {
  EXPECT_NE(outcome(R"({"$defs":{
      "a":{"type":"object","properties":{"n":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]},"p":{"type":"null"}}},
      "b":{"type":"object","properties":{"n":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/a"}]},"q":{"type":"null"}}}},
      "$ref":"#/$defs/a"})"),
            "never");
}

TEST(HostileSchema, Counts) {
  for (const char* schema :
       {R"({"type":"array","minItems":1000000000000})", R"({"type":"array","maxItems":18446744073709551615})",
        R"({"type":"string","minLength":4000000000})", R"({"type":"string","maxLength":100000000000})",
        R"({"type":"string","pattern":"a","minLength":10000000})", R"({"type":"array","minItems":-1})"}) {
    EXPECT_NE(outcome(schema), "") << schema;
  }
  EXPECT_EQ(outcome(R"({"type":"string","maxLength":10000})"), "");
  EXPECT_EQ(outcome(R"({"type":"array","maxItems":10000,"items":{"type":"integer"}})"), "");
}

TEST(HostileSchema, Patterns) {
  const auto pattern = [](const std::string& text) {
    return outcome(Json{{"type", "string"}, {"pattern", text}}.dump());
  };
  EXPECT_EQ(pattern("^(a*)*(a|a)*(a+)+$"), "");
  EXPECT_NE(pattern("^(((a{1000}){1000}){1000})$"), "");
  EXPECT_NE(pattern("(a|b)*a(a|b){40}"), "");
  EXPECT_NE(pattern(repeated("(", 10'000)), "");
  EXPECT_NE(pattern("^(){1000000}{2}$"), "");
  EXPECT_NE(pattern("^((((){1000}){1000}){1000})$"), "");
  EXPECT_NE(pattern(repeated("[^a]*b", 3000)), "never");
}

TEST(HostileSchema, Alternatives) {
  std::string values = "1";
  for (int i = 0; i < 10'000; ++i) values += fmt::format(",\"value {}\"", i);
  EXPECT_EQ(outcome("{\"enum\":[" + values + "]}"), "");
  // 2^40 combinations.
  std::string product = R"({"allOf":[{})";
  for (int i = 0; i < 40; ++i)
    product += fmt::format(R"(,{{"anyOf":[{{"minLength":{}}},{{"pattern":"a{}"}}]}})", i, i);
  EXPECT_NE(outcome(product + "]}"), "");
  // Few alternatives, each with a copy of a large schema.
  Json copies{{"properties", Json::object()}, {"anyOf", Json::array()}};
  for (int i = 0; i < 3000; ++i) copies["properties"][std::to_string(i)] = {{"type", "null"}};
  for (int i = 0; i < 3000; ++i) copies["anyOf"].push_back({{"required", {std::to_string(i)}}});
  EXPECT_NE(outcome(copies.dump()), "");
}

// Far above what it takes, and far below what reading took that looked at all siblings again for each object.
TEST(HostileSchema, ManyObjectsAreReadQuickly) {
  const std::string schema = R"({"enum":[{})" + repeated(",{}", 60'000) + "]}";
  const std::clock_t before = std::clock();
  EXPECT_EQ(outcome(schema), "");
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 2.5);
}

TEST(HostileSchema, ManyPropertiesAllOptional) {
  Json schema{{"type", "object"}, {"properties", Json::object()}};
  for (int i = 0; i < 500; ++i) schema["properties"][fmt::format("property_{}", i)] = {{"type", "string"}};
  const auto grammar = compile_json_schema(schema.dump());
  EXPECT_TRUE(accepts(grammar, R"({"property_7":"a","property_499":"b"})"));
  EXPECT_FALSE(accepts(grammar, R"({"property_8":"a","property_7":"b"})"));
  std::string wide = R"({"properties":{)";
  for (int i = 0; i < 30'000; ++i) wide += fmt::format("\"{}\":0,", i);
  EXPECT_NE(outcome(wide + R"("z":0}})"), "");
}

// Many alternatives that look alike for long: masks stay within their bounds, or say that they cannot.
TEST(HostileSchema, AlternativesThatLookAlike) {
  Json schema{{"anyOf", Json::array()}};
  for (int i = 0; i < 300; ++i) {
    schema["anyOf"].push_back(
        {{"type", "array"},
         {"items",
          {{"type", "array"}, {"items", {{"type", "string"}, {"pattern", fmt::format("^[a-z ]*{}$", i)}}}}}});
  }
  TokenMasker masker(shipped_vocabulary());
  try {
    Matcher matcher(compile_json_schema(schema.dump()));
    ASSERT_TRUE(matcher.accept("[[\"ab"));
    masker.mask(matcher);
  } catch (const Error&) {
    SUCCEED();
  }
}

TEST(HostileSchema, AnyTextIsAGrammarOrAnError) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed, const std::vector<std::uint16_t>& edits) {
    SchemaMaker random(seed);
    std::string text = random.schema().dump();
    for (const std::uint16_t edit : edits) {
      if (text.empty()) break;
      const std::size_t at = edit % text.size();
      if (edit & 1) {
        text.erase(at, 1 + random.below(8));
      } else {
        text[at] = "{}[]\",:0123456789-eaz$#\\"[random.below(24)];
      }
    }
    outcome(text);
  }));
}

}  // namespace
}  // namespace kvasir::grammar::testing
