// Arrays that must not have an element twice.
#include <gtest/gtest.h>

#include "base/error.h"
#include "grammar/constraint.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

constexpr const char* kIntegers = R"({"type":"array","items":{"type":"integer"},"uniqueItems":true})";
constexpr const char* kStrings = R"({"type":"array","items":{"type":"string"},"uniqueItems":true})";

TEST(Sets, OfScalars) {
  check_cases({
      {kIntegers,
       {"[]", "[1]", "[1,11,111,0,-1]", "[ 12, 1 ]", "[\n 1,\n 2\n]"},
       {"[1,1]", "[1, 1 ]", "[10,2,10]", "[1.0]", "[-0]", "[9007199254740993]"}},
      {kStrings,
       {"[]", R"(["a","ab","","a\\","\""])", R"(["],","a"])"},
       {R"(["a","a"])", R"(["","b",""])", R"(["a","\u0061"])", R"(["/","\/"])", R"(["é","é"])"}},
      {R"({"type":"array","items":{"type":"number"},"uniqueItems":true})",
       {"[1,1.5,0.1,-1,10]", "[0.25,2.5]"},
       {"[1,1]", "[1,1.0]", "[1.50]", "[1e0]", "[0,-0]", "[0.1,0.10]", "[0.1,0.10000000000000000001]"}},
      {R"({"uniqueItems":true,"items":{"anyOf":[{"type":"integer"},{"type":"number"},{"const":1.0},{"const":2e1}]}})",
       {"[1,2.5,20]"},
       {"[1,1.0]", "[1.0]", "[20,20]"}},
      {R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":14},"uniqueItems":true,"minItems":3})",
       {"[0,14,1]"},
       {"[0,1]", "[0,0,1]", "[15,1,2]"}},
  });
}

TEST(Sets, OfListsAndObjects) {
  check_cases({
      {R"({"type":"array","uniqueItems":true,
           "items":{"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"minItems":2,"items":false}})",
       {R"([[1,"a"],[1,"b"],[2,"a"]])", R"([[1,"a"], [11,"a"] ])"},
       {R"([[1,"a"],[1,"a"]])", R"([[1, "a"]])"}},
      {R"({"type":"array","uniqueItems":true,
           "items":{"anyOf":[{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}},"required":["b"]},
                             {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}}}]}})",
       {R"([{"a":1,"b":2},{"b":2},{"a":1}])", R"([{},{"b":null}])"},
       {R"([{"b":2,"a":1}])", R"([{"a":1,"b":2},{"a":1,"b":2}])", R"([{ "b":2}])", R"([{"b": 2}])"}},
      {R"({"type":"array","uniqueItems":true})",
       {R"([1,"1",[1],[[1]],{"a":1},{"a":2},{},[],null,true])"},
       {R"([{},{}])", R"([{"a":1,"b":2}])", R"([[1],[1]])", "[null,true,null]"}},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[{"b":1,"a":[1.0,2]},{"b":2},3,4,5,6,7,8,9,10,11,12,13]}})",
       {R"([{"a":[1,2],"b":1},{"b":2},3])"},
       {R"([{"b":1,"a":[1,2]}])", R"([{"b":2},{"b":2}])"}},
      {R"({"type":"array","uniqueItems":true,"items":{"type":"array","items":{"type":"integer"},"uniqueItems":true}})",
       {"[[1,2],[2,1],[]]", "[[1],[2]]"},
       {"[[1,1]]", "[[1,2],[1,2]]", "[[],[]]"}},
  });
}

// Ways of reading a list that ask for a set, and others that do not.
TEST(Sets, BesideOtherArrays) {
  check_cases({
      {R"({"anyOf":[{"type":"array","items":{"type":"integer"},"uniqueItems":true},
                    {"type":"array","items":{"type":"integer"},"maxItems":3}]})",
       {"[1,1]", "[1,1,1]", "[1,2,3,4]"},
       {"[1,1,1,1]", "[1,2,3,1]"}},
      {R"({"$defs":{"t":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/t"}},
                                  {"type":"array","items":{"type":"integer"},"uniqueItems":true}]}},"$ref":"#/$defs/t"})",
       {"[[1,2],[1,2]]", "[[[]],[[]]]", "[[[[[[[[[[[[1,2]]]]]]]]]],[[1,2],[1,2]]]]"},
       {"[[1,1]]", "[[[[[[[[[[[[1,1]]]]]]]]]]]]"}},
      {R"({"properties":{"a":{"items":{"type":"string"},"uniqueItems":true},"b":{"items":{"type":"string"},"uniqueItems":true}}})",
       {R"({"a":["x","y"],"b":["y","x"]})"},
       {R"({"a":["x","x"]})", R"({"a":["x"],"b":["x","x"]})"}},
  });
}

// A list that may repeat goes on where a set of the same values has ended, and the search for a way ends too.
TEST(Sets, ListsGoOnWhereSetsAreFull) {
  const auto grammar = compile_json_schema(
      R"({"$defs":{"n":{"type":"integer","minimum":1,"maximum":13}},
          "anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"},"uniqueItems":true},
                   {"type":"array","items":{"$ref":"#/$defs/n"},"minItems":20}]})");
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.accept("[1,2,3,4,5,6,7,8,9,10,11,12,13"));
  EXPECT_TRUE(matcher.can_accept("]"));
  ASSERT_TRUE(matcher.accept(",1"));
  EXPECT_FALSE(matcher.can_accept("]"));
  ASSERT_TRUE(matcher.accept(",1,1,1,1,1"));
  EXPECT_FALSE(matcher.can_accept("]"));
  ASSERT_TRUE(matcher.accept(",1]"));
  EXPECT_TRUE(matcher.complete());
}

// The schema {tree: list of trees, or a list of such sets} gives up a way at every bracket.
TEST(Sets, WaysThatWereGivenUpMakeRoom) {
  const auto grammar = compile_json_schema(
      R"({"$defs":{"t":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/t"}},
          {"type":"array","items":{"type":"array","items":{"type":"integer"}},"uniqueItems":true}]}},"$ref":"#/$defs/t"})");
  Matcher matcher(grammar);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(matcher.accept("["));
  EXPECT_FALSE(matcher.can_accept("[1],[1]"));
  EXPECT_TRUE(matcher.accept("[1],[2]"));
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(matcher.accept("]"));
  EXPECT_TRUE(matcher.complete());
}

std::string refusal(const std::string& schema) {
  try {
    compile_json_schema(schema);
    return "none";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Sets, TooFewValuesAreRefusedWhenTheSchemaIsCompiled) {
  const auto range = [](int least, int values) {
    return R"({"type":"array","uniqueItems":true,"minItems":)" + std::to_string(least) +
           R"(,"items":{"type":"integer","minimum":1,"maximum":)" + std::to_string(values) + "}}";
  };
  EXPECT_EQ(refusal(range(20, 20)), "none");
  EXPECT_NE(refusal(range(21, 20)).find("uniqueItems"), std::string::npos);
  EXPECT_EQ(refusal(range(16000, 1000 * 1000)), "none");
  for (const char* schema :
       {R"({"uniqueItems":true,"items":{"type":"string","pattern":"^[ab]{4}$"},"minItems":17})",
        R"({"uniqueItems":true,"items":{"type":"integer"},"minItems":100000})",
        R"({"uniqueItems":true,"items":{"type":"integer"},"contains":{"const":3}})",
        R"({"uniqueItems":true,"items":{"enum":[9007199254740993,1,2,3,4,5,6,7,8,9,10,11,12]}})",
        R"({"$defs":{"t":{"items":{"$ref":"#/$defs/t"},"uniqueItems":true}},"$ref":"#/$defs/t"})",
        R"({"uniqueItems":true,"prefixItems":[{"type":"integer"},{"const":1}],"minItems":2})"}) {
    EXPECT_NE(refusal(schema), "none") << schema;
  }
}

// Counting the values takes no longer than compiling may.
TEST(Sets, CountingIsBounded) {
  const auto one = [](int i) {
    return R"({"uniqueItems":true,"minItems":16000,"items":{"type":"string","pattern":"^[ab]{13}c{90})" +
           std::to_string(i) + R"($"}})";
  };
  EXPECT_NE(refusal(one(1)), "none");  // 8192 values
  EXPECT_NE(refusal(R"({"uniqueItems":true,"minItems":16000,"items":{"type":"string","pattern":"^[ab]{13}c{900}$"}})")
                .find("too many to count"),
            std::string::npos);
}

// All values there are, in an order of the tokens' making: no token leads where nothing is left.
TEST(Sets, AllValuesAreUsedUp) {
  const std::vector<std::pair<std::string, std::size_t>> all{
      {R"({"type":"integer","minimum":1,"maximum":130})", 130},
      {R"({"type":"string","pattern":"^[ab]{1,4}$"})", 30},
      {R"({"type":"array","items":{"type":"string","pattern":"^[ab]$"},"maxItems":3})", 15},
      {R"({"type":"array","items":{"type":"integer","minimum":1,"maximum":13},"uniqueItems":true,"maxItems":1})", 14},
      {R"({"type":"object","properties":{"a":{"type":"integer","minimum":0,"maximum":9},"b":{"type":"null"}}})", 22}};
  for (const auto& [items, count] : all) {
    const std::string text_of_schema =
        R"({"type":"array","uniqueItems":true,"items":)" + items + R"(,"minItems":)" + std::to_string(count) + "}";
    const auto grammar = compile_json_schema(text_of_schema);
    const Json schema = Json::parse(text_of_schema);
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SchemaMaker random(seed);
      TokenMasker masker(byte_vocabulary({"1,", "12", ",1", "99,9", "\",\"", "a\",", "\"a", "ab", "],[", "[\"",
                                          "bb\"", "}]", "{\"a\":", "},{", ",2,", "1,1"}));
      Matcher matcher(grammar);
      std::string text;
      while (walk_one(masker, random, Pace::kAny, matcher, text)) {
      }
      ASSERT_TRUE(matcher.complete()) << text;
      const Json value = Json::parse(text);
      EXPECT_EQ(value.size(), count);
      EXPECT_EQ(why_invalid(value, schema, schema), "");
    }
  }
}

// A token may end an element, and be more elements.
TEST(Sets, TokensOfSeveralElements) {
  TokenMasker masker(byte_vocabulary({"1,2", ",3]", "2,1,", "1,1]", "\",\"", "a\",\"a\"", "a\",\"b\"", "12,1,"}));
  const auto allows = [&](const Matcher& matcher, std::string_view token) {
    for (TokenId id = 0; id < static_cast<TokenId>(masker.vocabulary().size()); ++id) {
      if (masker.vocabulary().bytes_of(id) == token) return masker.mask(matcher)->contains(id);
    }
    return false;
  };
  Matcher integers(compile_json_schema(kIntegers));
  ASSERT_TRUE(integers.accept("["));
  EXPECT_TRUE(allows(integers, "1,2"));
  EXPECT_FALSE(allows(integers, "1,1]"));
  ASSERT_TRUE(integers.accept("3,"));
  EXPECT_TRUE(allows(integers, "2,1,"));
  ASSERT_TRUE(integers.accept("1"));
  EXPECT_TRUE(allows(integers, "2,1,"));  // 12, 1
  EXPECT_FALSE(allows(integers, ",3]"));
  ASSERT_TRUE(integers.accept(","));
  EXPECT_FALSE(allows(integers, "2,1,"));
  EXPECT_FALSE(allows(integers, "1,2"));
  EXPECT_FALSE(allows(integers, "12,1,"));
  Matcher strings(compile_json_schema(kStrings));
  ASSERT_TRUE(strings.accept("[\""));
  EXPECT_FALSE(allows(strings, "a\",\"a\""));
  EXPECT_TRUE(allows(strings, "a\",\"b\""));
  ASSERT_TRUE(strings.accept("b"));
  EXPECT_TRUE(allows(strings, "a\",\"a\""));
  EXPECT_TRUE(allows(strings, "\",\""));
}

// The last character of a string whose length has a limit decides what the string is: masks may not allow all of
// them at once, as the vocabulary of single characters would have it.
TEST(Sets, ShortStrings) {
  TokenMasker masker(byte_vocabulary({"ab", "\xC3\xA9\xC3\xA9", "xyz"}));
  TokenMasker single(byte_vocabulary());
  Matcher matcher(
      compile_json_schema(R"({"type":"array","items":{"type":"string","maxLength":2},"uniqueItems":true})"));
  ASSERT_TRUE(matcher.accept(R"(["","a","ab",")"));
  const auto first = masker.mask(matcher);
  EXPECT_FALSE(first->contains('"'));
  EXPECT_TRUE(first->contains('a'));
  EXPECT_FALSE(first->contains(256)) << "ab, which is there";
  EXPECT_TRUE(first->contains(257));
  ASSERT_TRUE(matcher.accept("a"));
  const auto second = masker.mask(matcher);
  EXPECT_FALSE(second->contains('"'));
  EXPECT_FALSE(second->contains('b'));
  EXPECT_FALSE(single.mask(matcher)->contains('b'));
  EXPECT_TRUE(second->contains('c'));
}

TEST(Sets, CopiesGoTheirOwnWays) {
  Matcher one(compile_json_schema(kIntegers));
  ASSERT_TRUE(one.accept("[1,2"));
  EXPECT_EQ(one.digest(), std::nullopt);
  const Matcher before = one;
  Matcher other = before.apart();
  ASSERT_TRUE(one.accept(",3,"));
  ASSERT_TRUE(other.accept("5,4,"));
  EXPECT_FALSE(one.accept("3,"));
  EXPECT_FALSE(one.can_accept("3]"));
  EXPECT_TRUE(one.accept("25,4]"));
  EXPECT_FALSE(other.accept("25]"));
  EXPECT_TRUE(other.accept("3]"));
  one = before;  // back
  EXPECT_TRUE(one.accept(",3]"));
  EXPECT_TRUE(one.complete());
  EXPECT_TRUE(one.digest().has_value());
}

TEST(Sets, DraftsAreTakenUpToAnElementThatIsThere) {
  const auto vocabulary = byte_vocabulary();
  GrammarConstraint constraint(compile_json_schema(kIntegers), std::make_shared<TokenMasker>(vocabulary));
  for (const char c : std::string_view("[1,2,")) constraint.accept(c);
  const auto allowed = [&](std::string_view draft) {
    return constraint.allowed(std::vector<TokenId>(draft.begin(), draft.end()));
  };
  EXPECT_EQ(allowed("3,4,5]"), 6U);
  EXPECT_EQ(allowed("3,4,3]"), 5U);
  EXPECT_EQ(allowed("1]"), 1U);
  EXPECT_THROW(constraint.accept(']'), Error);  // an element must follow
  constraint.accept('7');
  constraint.accept(']');
  EXPECT_TRUE(constraint.complete());
}

TEST(Sets, OfMoreThanAMillionBytesAreAnError) {
  Matcher matcher(compile_json_schema(kStrings));
  ASSERT_TRUE(matcher.accept("[\"a\",\""));
  EXPECT_THROW(matcher.accept(std::string(1U << 20, 'x')), Error);
  EXPECT_TRUE(matcher.accept("b\"]"));  // as if nothing had been
  EXPECT_TRUE(matcher.complete());
}

}  // namespace
}  // namespace kvasir::grammar::testing
