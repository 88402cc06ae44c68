#include "grammar/matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "grammar/builder.h"
#include "grammar/code_points.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

constexpr const char* kTree =
    R"({"$defs":{"t":{"type":"object","properties":{"l":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]},)"
    R"("r":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},"required":["l","r"],"additionalProperties":false}},)"
    R"("$ref":"#/$defs/t"})";

TEST(Matcher, TakesAllOrNothing) {
  Matcher matcher(compile_json_schema(R"({"enum":["abc"]})"));
  EXPECT_FALSE(matcher.accept("\"abX"));
  EXPECT_TRUE(matcher.can_accept("\"abc"));
  EXPECT_TRUE(matcher.accept("\"ab"));
  EXPECT_FALSE(matcher.complete());
  EXPECT_TRUE(matcher.accept("c\""));
  EXPECT_TRUE(matcher.complete());
  EXPECT_FALSE(matcher.can_go_on());
  EXPECT_FALSE(matcher.accept(" "));
  EXPECT_TRUE(matcher.accept(""));
}

TEST(Matcher, CopiesGoTheirOwnWays) {
  Matcher one(any_json_object());
  ASSERT_TRUE(one.accept(R"({"a":[1,)"));
  const Matcher before = one;
  ASSERT_TRUE(one.accept("2]"));
  Matcher other = before;
  ASSERT_TRUE(other.accept("[[[\"x"));
  ASSERT_TRUE(other.accept("\"]]]]}"));
  EXPECT_TRUE(other.complete());
  EXPECT_FALSE(one.complete());
  one = before;  // back
  EXPECT_TRUE(one.accept("null]}"));
  EXPECT_TRUE(one.complete());
}

TEST(Matcher, DepthIsBoundedByTheTextOnly) {
  const auto grammar = compile_json_schema(kTree);
  constexpr int kDepth = 20'000;
  Matcher matcher(grammar);
  for (int i = 0; i < kDepth; ++i) ASSERT_TRUE(matcher.accept(R"({"l":)"));
  for (int i = 0; i < kDepth; ++i) ASSERT_TRUE(matcher.accept(i == 0 ? R"(null,"r":null})" : R"(,"r":null})"));
  EXPECT_TRUE(matcher.complete());
  EXPECT_FALSE(matcher.can_go_on());
}

// All ways of reading are followed, but they do not multiply with depth.
TEST(Matcher, AmbiguityDoesNotGrowWithDepth) {
  const auto grammar = compile_json_schema(R"({"$defs":{
      "a":{"type":"object","properties":{"x":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}},"maxLength":1},
      "b":{"type":"object","properties":{"x":{"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/a"}]},"y":{"type":"null"}}}},
      "anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]})");
  Matcher matcher(grammar);
  std::size_t most = 0;
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(matcher.accept("{\"x\":"));
    most = std::max(most, matcher.places().size());
  }
  EXPECT_LE(most, 16U);
  ASSERT_TRUE(matcher.accept("{\"y\":null}"));
  for (int i = 0; i < 499; ++i) ASSERT_TRUE(matcher.accept("}"));
  EXPECT_FALSE(matcher.complete());
  ASSERT_TRUE(matcher.accept("}"));
  EXPECT_TRUE(matcher.complete());
}

// Two alternatives, each in a rule of its own, wait for the same string: both go on after it.
TEST(Matcher, SharedCallsReturnToAllCallers) {
  const auto grammar = compile_json_schema(R"({"anyOf":[
      {"properties":{"x":{"properties":{"y":{"type":"string"}},"required":["y"]},"k":{"type":"null"}},"required":["x","k"]},
      {"properties":{"x":{"properties":{"y":{"type":"string"},"z":{"type":"integer"}},"required":["y","z"]},
                     "k":{"type":"boolean"}},"required":["x","k"]}]})");
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.accept(R"({"x":{"y":"both are)"));
  EXPECT_EQ(matcher.places().size(), 1U);
  EXPECT_TRUE(accepts(grammar, R"({"x":{"y":"a"},"k":null})"));
  EXPECT_TRUE(accepts(grammar, R"({"x":{"y":"a","z":1},"k":true})"));
  EXPECT_FALSE(accepts(grammar, R"({"x":{"y":"a"},"k":true})"));
  EXPECT_FALSE(accepts(grammar, R"({"x":{"y":"a","z":1},"k":null})"));
}

// A grammar need not be JSON: here two ways of going on overlap.
TEST(Matcher, FollowsAllWaysAtOnce) {
  GrammarBuilder builder;
  const RuleId root = builder.add_rule("root");
  const RuleId word = builder.add_rule("word");
  const NodeId loop = builder.literal(builder.rule(word).start, "a");
  builder.bytes(loop, 'a', 'a', loop);
  builder.join(loop, builder.rule(word).end);
  for (const char* tail : {"b", "c", "ad"}) {
    builder.join(builder.literal(builder.call(builder.rule(root).start, word), tail), builder.rule(root).end);
  }
  const auto grammar = builder.build(root);
  for (const char* text : {"ab", "aaac", "aad", "aaaad"}) EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const char* text : {"b", "a", "ad", "aabc", "aadd"}) EXPECT_FALSE(accepts(grammar, text)) << text;
}

TEST(Matcher, StringsAreValidUtf8WithoutControlCharacters) {
  const auto grammar = compile_json_schema(R"({"type":"string"})");
  EXPECT_TRUE(rc::check([&](std::vector<std::uint8_t> bytes) {
    std::erase(bytes, 0);  // which the other parser takes for the end of its input
    std::string inside(bytes.begin(), bytes.end());
    bool plain = true;
    for (std::string_view rest = inside; plain && !rest.empty();) {
      const auto character = take_utf8(rest);
      plain = character && *character >= 0x20 && *character != U'"' && *character != U'\\';
    }
    const Json parsed = Json::parse("\"" + inside + "\"", nullptr, false);
    RC_ASSERT(accepts(grammar, "\"" + inside + "\"") == !parsed.is_discarded());
    RC_ASSERT(!plain || !parsed.is_discarded());
  }));
}

TEST(Matcher, EveryCharacterAndOnlyCharacters) {
  const auto grammar = compile_json_schema(R"({"type":"string","maxLength":1})");
  const auto pattern = compile_json_schema(R"({"type":"string","pattern":"^[^]$"})");
  for (std::uint32_t c = 0; c < 0x110000; c += c < 0x3000 || (c > 0xD700 && c < 0xE100) ? 1 : 251) {
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    std::string spelled = "\"" + json_spelling(c) + "\"";
    ASSERT_EQ(accepts(grammar, spelled), !surrogate) << c;
    ASSERT_EQ(accepts(pattern, spelled), !surrogate) << c;
    if (!surrogate) {
      ASSERT_EQ(spelled, Json::parse(spelled).dump());
    }
  }
}

TEST(Matcher, Escapes) {
  const auto grammar = compile_json_schema(R"({"type":"string"})");
  for (const char* text :
       {R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\u20AC\uD7ff\ue000")", R"("\ud83d\ude00")", "\"\x7F\""}) {
    EXPECT_TRUE(accepts(grammar, text)) << text;
    EXPECT_FALSE(Json::parse(text, nullptr, false).is_discarded()) << text;
  }
  for (const char* text :
       {R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ude00")", R"("\ud83d\u0041")", R"("\ud83dx")", "\"\x01\"",
        "\"\n\"", "\"\xC0\xAF\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\x80\"", "\"\xE6\xBC\""}) {
    EXPECT_FALSE(accepts(grammar, text)) << text;
  }
}

}  // namespace
}  // namespace kvasir::grammar::testing
