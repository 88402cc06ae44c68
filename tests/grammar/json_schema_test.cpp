#include "grammar/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "grammar/builder.h"
#include "grammar/decimal_range.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

TEST(JsonSchema, Scalars) {
  check_cases({
      {R"({"type":"null"})", {"null", " null", "\nnull"}, {"nul", "nulll", "0", "\"null\"", ""}},
      {R"({"type":"boolean"})", {"true", "false"}, {"True", "1"}},
      {R"({"type":"integer"})",
       {"0", "-1", "9223372036854775807", "-9223372036854775808"},
       {"-0", "01", "1.0", "9223372036854775808", "1e3", "+1", ""}},
      {R"({"type":"number"})",
       {"0", "-0", "1.5", "-12.25e-3", "1E+7", "0.1e0", "1e279", "1e-309"},
       {".5", "1.", "01", "1e", "0x1", "1e400", "NaN", "--1"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("\n\\é")", R"("\ud83d\ude00x")"},
       {R"("a")", R"("abcd")", R"("\n")"}},
      {R"({"type":["string","null"]})", {"null", "\"\""}, {"1"}},
      {R"({"enum":["a","a\"b",1,2.5,null,[1,{"x":2}]]})",
       {R"("a")", R"("a\"b")", "1", "2.5", "null", R"([1,{"x":2}])"},
       {R"("b")", "2", "[1]"}},
      {R"({"type":"string","enum":["a",1]})", {R"("a")"}, {"1"}},
      {R"({"const":"x"})", {R"("x")"}, {R"("y")"}},
      {R"({"enum":["a","b"],"const":"b"})", {R"("b")"}, {R"("a")"}},
  });
}

TEST(JsonSchema, NumbersWithinBounds) {
  check_cases({
      {R"({"type":"integer","minimum":0,"maximum":150})",
       {"0", "9", "10", "99", "100", "149", "150"},
       {"-1", "151", "200", "1000", "00"}},
      {R"({"type":"integer","exclusiveMinimum":-5,"exclusiveMaximum":5})",
       {"-4", "0", "4"},
       {"-5", "5", "10", "-10"}},
      {R"({"type":"integer","minimum":-1.5,"maximum":1.5})", {"-1", "0", "1"}, {"-2", "2"}},
      {R"({"type":"integer","minimum":1000})", {"1000", "9223372036854775807"}, {"999", "-1000"}},
      {R"({"type":"integer","maximum":-10})", {"-10", "-11", "-100"}, {"-9", "0", "10"}},
      {R"({"type":"number","minimum":0,"maximum":1})",
       {"0", "1", "0.5", "1.0", "1.000", "0.123456789"},
       {"1.1", "1.0001", "-0.1", "2", "1e-1", "10"}},
      {R"({"type":"number","exclusiveMinimum":0})", {"0.001", "1", "12345.5"}, {"0", "0.0", "-1"}},
      {R"({"type":"number","minimum":-2.25,"exclusiveMaximum":-0.5})",
       {"-2.25", "-2.2", "-1", "-0.51"},
       {"-2.26", "-0.5", "-0.50", "0", "-3", "-10"}},
      {R"({"type":"number","minimum":1e3,"maximum":1.5e3})", {"1000", "1500", "1234.5"}, {"999.9", "1500.1"}},
  });
}

TEST(JsonSchema, BoundsAgreeWithArithmetic) {
  SchemaMaker random(3);
  for (int round = 0; round < 200; ++round) {
    const int low = static_cast<int>(random.below(400)) - 200;
    const int high = low + static_cast<int>(random.below(150));
    const auto grammar = compile_json_schema(Json{{"type", "integer"}, {"minimum", low}, {"maximum", high}}.dump());
    for (int n = -250; n <= 400; ++n) {
      ASSERT_EQ(accepts(grammar, std::to_string(n)), n >= low && n <= high) << low << " " << n << " " << high;
    }
  }
}

TEST(JsonSchema, Decimals) {
  const auto text = [](const char* number) {
    const auto value = parse_decimal(number);
    return value ? std::string(value->negative ? "-" : "") + value->whole + "." + value->fraction : "none";
  };
  EXPECT_EQ(text("0"), "0.");
  EXPECT_EQ(text("-0.0"), "0.");
  EXPECT_EQ(text("12.50"), "12.5");
  EXPECT_EQ(text("1e+3"), "1000.");
  EXPECT_EQ(text("-1.25e-2"), "-0.0125");
  EXPECT_EQ(text("1e-7"), "0.0000001");
  EXPECT_EQ(text("123.456e1"), "1234.56");
  EXPECT_EQ(text("1e300"), "none");
}

TEST(JsonSchema, Objects) {
  check_cases({
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{"type":"boolean"}},"required":["b"]})",
       {R"({"b":null})", R"({"a":1,"b":null})", R"({"b":null,"c":true})", R"({"a":1,"b":null,"c":false})",
        "{\n  \"a\": 1,\n  \"b\": null\n}", R"({ "b": null })"},
       {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"b":null,})", R"({,"b":null})", R"({"b":null,"x":1})",
        R"({"b":null,"b":null})", R"({"b" :null})", R"({"b":  null})"}},
      {R"({"type":"object","properties":{},"additionalProperties":false})", {"{}", "{ }", "{\n}"}, {R"({"a":1})"}},
      {R"({"type":"object"})", {"{}", R"({"a":1,"b":{"c":[]}})"}, {"[]", R"({a:1})"}},
      {R"({"properties":{"a":{}},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":"x"})", R"({"a":"x","b":1,"aa":2,"":3})", R"({"b":1})"},
       {R"({"b":"x"})", R"({"b":1,"a":2})", R"({"\u0061":1})", R"({"b":1,})"}},
      {R"({"required":["k"]})", {R"({"k":1})", R"({"k":[],"z":null})"}, {"{}", R"({"z":1})"}},
      {R"({"type":"object","properties":{"a":false,"b":{"type":"null"}}})", {"{}", R"({"b":null})"}, {R"({"a":1})"}},
  });
}

TEST(JsonSchema, Arrays) {
  check_cases({
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[1]", "[1,2,3]", "[1, 2]", "[\n  1,\n  2\n]"},
       {"[1,]", "[,1]", "[\"a\"]", "[1 2]", "[1"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":2,"maxItems":3})",
       {"[null,null]", "[null,null,null]"},
       {"[]", "[null]", "[null,null,null,null]"}},
      {R"({"type":"array","items":{"type":"null"},"maxItems":0})", {"[]"}, {"[null]"}},
      {R"({"type":"array","items":{"type":"null"},"minItems":2})",
       {"[null,null]", "[null,null,null,null]"},
       {"[null]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}]})",
       {"[]", "[1]", "[1,null]"},
       {"[null]", "[1,null,1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":2})",
       {"[1,null]", "[1,null,null]"},
       {"[1]", "[1,1]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"}],"items":false})", {"[1]"}, {"[1,1]"}},
      {R"({"type":"array"})", {"[]", R"([1,"a",{"b":[null]}])"}, {"{}"}},
  });
}

TEST(JsonSchema, Combinations) {
  check_cases({
      {R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"type":"null"}}}]})",
       {"1", "{}", R"({"a":null})"},
       {"null", R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":null})", R"({"b":null})", R"({"a":null,"b":null})"},
       {"{}"}},
      {R"({"allOf":[{"$ref":"#/$defs/x"}],"description":"d","$defs":{"x":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"number"}}},
                    {"properties":{"a":{"type":"integer"},"b":{"minimum":2}},"required":["b"]},{"required":["a"]}]})",
       {R"({"a":1,"b":2.5})"},
       {R"({"a":1})", R"({"a":1.5,"b":2})", R"({"b":2})", R"({"a":1,"b":1})"}},
      {R"({"$ref":"#/definitions/a~1b","definitions":{"a/b":{"enum":[7]}}})", {"7"}, {"8"}},
      {R"({"allOf":[{"type":["string","null"]},{"type":["null","integer"]}]})", {"null"}, {"1", "\"\""}},
      {R"({"type":"string","minLength":1,"allOf":[{"minLength":2,"maxLength":9},{"maxLength":3}]})",
       {R"("ab")", R"("abc")"},
       {R"("a")", R"("abcd")"}},
      {"true", {"1", "{}", "[null]"}, {"", "x"}},
  });
  EXPECT_TRUE(accepts(R"({"$ref":"#/properties/x%20y","properties":{"x y":{"enum":[7]}},"type":"integer"})", "7"));
}

TEST(JsonSchema, WhiteSpaceIsBounded) {
  const auto grammar = compile_json_schema(R"({"type":"array","items":{"type":"null"}})");
  EXPECT_TRUE(accepts(grammar, "[\n" + std::string(16, ' ') + "null\n\t\t]"));
  EXPECT_FALSE(accepts(grammar, "[\n" + std::string(17, ' ') + "null]"));
  EXPECT_FALSE(accepts(grammar, "[  null]"));
  EXPECT_FALSE(accepts(grammar, "[\n\nnull]"));
  EXPECT_FALSE(accepts(grammar, "[null] "));
  EXPECT_FALSE(accepts(grammar, "[null ,null]"));
  for (const char* begin : {"", " ", "\n"}) EXPECT_TRUE(accepts(grammar, begin + std::string("[]")));
  for (const char* begin : {"  ", "\n ", " \n", "\n\n", "\t", "\r\n"})
    EXPECT_FALSE(accepts(grammar, begin + std::string("[]"))) << begin;
}

// Whatever the form, a model that would write nothing but white space has to begin with its second character.
TEST(JsonSchema, AModelThatLikesWhiteSpaceGetsToThePoint) {
  for (const auto& grammar :
       {any_json_object(), compile_json_schema("true"), compile_json_schema(R"({"enum":["a"]})")}) {
    Matcher matcher(grammar);
    int spaces = 0;
    for (bool went_on = true; went_on && spaces < 100; ++spaces) {
      went_on = std::ranges::any_of(std::string_view(" \n\t\r"),
                                    [&](const char& c) { return matcher.accept(std::string_view(&c, 1)); });
    }
    EXPECT_LE(spaces - 1, 1);
  }
}

TEST(JsonSchema, WhatIsNotSupportedIsNamedWithItsPath) {
  const auto message = [](const char* schema) -> std::string {
    try {
      compile_json_schema(schema);
      return "no error";
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), Error::Kind::kSystem);
      return error.what();
    }
  };
  EXPECT_NE(message(R"({"properties":{"a":{"items":{"frobnicate":{}}}}})")
                .find("schema.a.items: not supported: \"frobnicate\""),
            std::string::npos);
  EXPECT_NE(message(R"({"properties":{"a":{"not":{"format":"date"}}}})").find("schema.a.not: not supported"),
            std::string::npos);
  EXPECT_NE(message(R"({"oneOf":[{"format":"date"},{"format":"time"}]})").find("schema.oneOf[1]: not supported"),
            std::string::npos);
  for (const char* schema : {R"({"type":"number","multipleOf":0.1})",
                             R"({"type":"number","multipleOf":0})",
                             R"({"type":"object","minProperties":2})",
                             R"({"dependentRequired":{"a":[1]}})",
                             R"({"dependentRequired":{"a":{}}})",
                             R"({"dependentRequired":3})",
                             R"({"unevaluatedProperties":3})",
                             R"({"not":3})",
                             R"({"not":{}})",
                             R"({"$ref":"#nowhere"})",
                             R"({"$dynamicRef":1})",
                             R"({"$defs":{"a":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"})",
                             R"({"$defs":{"a":{"oneOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}},"$ref":"#/$defs/a"})",
                             R"({"not":{"type":"object","additionalProperties":{"$exists":1}}})",
                             R"({"$except":[1]})",
                             R"({"propertyNames":{"pattern":"("}})",
                             R"({"not":{"multipleOf":2}})",
                             R"({"not":{"const":{"a":1}},"type":"object"})",
                             R"({"unevaluatedItems":false,"contains":{"type":"null"}})",
                             R"({"type":"string","format":"frobnicated"})",
                             R"({"$ref":"http://example.com/x"})",
                             R"({"$ref":"#/$defs/none"})",
                             R"({"$ref":1})",
                             R"({"type":"text"})",
                             R"({"type":3})",
                             R"({"required":"a"})",
                             R"({"required":[1]})",
                             R"({"enum":3})",
                             R"({"enum":[]})",
                             R"({"minLength":-1})",
                             R"({"minLength":"1"})",
                             R"({"items":3})",
                             R"({"properties":{"a":3}})",
                             R"({"anyOf":[]})",
                             "3",
                             "",
                             "{",
                             "[]",
                             R"({"type":"string","enum":["a"],"minLength":2})",
                             R"({"type":"string","pattern":"a","format":"date"})",
                             R"({"type":"object","properties":{},"additionalProperties":false,"required":["a"]})",
                             R"({"type":"integer","minimum":5,"maximum":4})",
                             R"({"type":"string","minLength":5,"maxLength":4})",
                             R"({"type":"array","minItems":3,"prefixItems":[{}]})",
                             "false",
                             R"({"enum":[1],"type":"string"})"}) {
    EXPECT_NE(message(schema), "no error") << schema;
  }
}

TEST(JsonSchema, WhatOnlyDescribesIsIgnored) {
  check_cases(
      {{R"({"$schema":"s","$id":"i","$comment":"c","title":"t","description":"d","default":1,"examples":[],"deprecated":true,
              "readOnly":true,"x-order":3,"type":"integer","uniqueItems":false,"multipleOf":1})",
        {"1"},
        {"null"}}});
}

}  // namespace
}  // namespace kvasir::grammar::testing
