// Keyword by keyword: what goes in, and what does not. Every text that is good here satisfies its schema.
#include <gtest/gtest.h>

#include "base/error.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

TEST(SchemaKeywords, PropertiesByTheirNames) {
  check_cases({
      {R"({"type":"object","patternProperties":{"^s_":{"type":"string"},"_n$":{"type":"integer"}}})",
       {"{}", R"({"s_a":"x"})", R"({"a_n":1,"s_":""})", R"({"a_n":1,"b_n":2})"},
       {R"({"s_a":1})", R"({"s_n":1})", R"({"s_n":"x"})", R"({"other":1})"}},
      {R"({"type":"object","properties":{"a":{}},"patternProperties":{"^a":{"type":"null"}},"additionalProperties":{"type":"boolean"}})",
       {R"({"a":null,"ab":null,"b":true})", "{}"},
       {R"({"a":1})", R"({"ab":true})", R"({"b":null})"}},
      {R"({"type":"object","patternProperties":{"^a":{}},"additionalProperties":false})",
       {R"({"a":1,"ab":[]})"},
       {R"({"b":1})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]{2,3}$"},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"ab":1,"abc":2})"},
       {R"({"a":1})", R"({"abcd":1})", R"({"ab":"x"})", R"({"\u0061b":1})"}},
      {R"({"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"integer"},"required":["b"]})",
       {R"({"b":1})", R"({"b":1,"a":2})"},
       {R"({"a":1})", R"({"b":1,"c":2})", R"({"b":1,"a":1,"a":2})"}},
      {R"({"type":"object","propertyNames":{"format":"uuid"},"additionalProperties":{"type":"integer"}})",
       {R"({"123e4567-e89b-12d3-a456-426614174000":1})"},
       {R"({"a":1})"}},
      {R"({"type":"object","minProperties":1,"additionalProperties":{"type":"null"}})",
       {R"({"a":null})", R"({"a":null,"b":null})"},
       {"{}"}},
      {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2})",
       {R"({"a":1,"b":1})", R"({"a":1,"c":1})", R"({"b":1,"c":1})"},
       {R"({"a":1})", R"({"a":1,"b":1,"c":1})"}},
      {R"({"type":"object","maxProperties":2})", {"{}", R"({"a":1,"b":1})"}, {R"({"a":1,"b":1,"c":1})"}},
      {R"({"type":"object","properties":{"a":{}},"required":["a","z"]})",
       {R"({"a":1,"z":[]})"},
       {R"({"a":1})", R"({"a":1,"z":1,"y":1})"}},
  });
}

TEST(SchemaKeywords, Dependents) {
  check_cases({
      {R"({"type":"object","properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}})",
       {"{}", R"({"b":1})", R"({"a":1,"b":1})"},
       {R"({"a":1})"}},
      {R"({"type":"object","properties":{"a":{},"b":{}},"dependentSchemas":{"a":{"properties":{"b":{"type":"null"}}}}})",
       {R"({"b":1})", R"({"a":1})", R"({"a":1,"b":null})"},
       {R"({"a":1,"b":1})"}},
  });
  EXPECT_FALSE(accepts(R"({"type":"object","properties":{"a":{},"b":{}},"dependencies":{"a":["b"]}})", R"({"a":1})"));
}

TEST(SchemaKeywords, Negation) {
  check_cases({
      {R"({"not":{"type":"string"}})", {"1", "null", "{}", "[]"}, {"\"\""}},
      {R"({"type":"string","not":{"enum":["a","b"]}})", {R"("c")", R"("ab")", R"("")"}, {R"("a")", R"("b")"}},
      {R"({"type":"string","not":{"pattern":"^a"},"minLength":1})", {R"("b")"}, {R"("a")", R"("ab")", R"("")"}},
      {R"({"type":"number","not":{"type":"integer"}})", {"1.5", "-0.25"}, {"1", "1.0", "10.00"}},
      {R"({"type":"integer","not":{"minimum":3,"maximum":5}})", {"2", "6", "-7"}, {"3", "4", "5"}},
      {R"({"type":"integer","minimum":0,"maximum":3,"not":{"enum":[1,3,7]}})", {"0", "2"}, {"1", "3", "4"}},
      {R"({"type":"array","items":{"type":"integer"},"not":{"maxItems":1}})", {"[1,2]"}, {"[]", "[1]"}},
      {R"({"type":"array","items":{"type":["integer","null"]},"not":{"items":{"type":"integer"}}})",
       {"[null]", "[1,null]", "[null,1]"},
       {"[]", "[1]", "[1,2]"}},
      {R"({"type":"array","items":{"enum":[1,2]},"not":{"contains":{"const":1}}})", {"[]", "[2]"}, {"[1]", "[2,1]"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{}},"not":{"required":["b"]}})",
       {"{}", R"({"a":1})"},
       {R"({"b":1})"}},
      {R"({"type":"object","properties":{"a":{"enum":["x","y","z"]}},"required":["a"],"not":{"properties":{"a":{"const":"y"}}}})",
       {R"({"a":"x"})", R"({"a":"z"})"},
       {R"({"a":"y"})", "{}"}},
      {R"({"not":{"not":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"type":"object","additionalProperties":{"type":"integer"},"not":{"additionalProperties":false,"properties":{"a":{}}}})",
       {R"({"b":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1})"}},
      {R"({"not":{"enum":[[],{},null,false]}})", {"true", "[1]", R"({"a":1})", "0"}, {"[]", "{}", "null", "false"}},
  });
}

TEST(SchemaKeywords, Conditions) {
  const char* schema = R"({"type":"object","properties":{"country":{"enum":["US","NL"]},"zip":{"type":"string"}},
      "required":["country","zip"],
      "if":{"properties":{"country":{"const":"US"}}},
      "then":{"properties":{"zip":{"pattern":"^[0-9]{5}$"}}},
      "else":{"properties":{"zip":{"pattern":"^[0-9]{4} [A-Z]{2}$"}}}})";
  check_cases({
      {schema,
       {R"({"country":"US","zip":"12345"})", R"({"country":"NL","zip":"1234 AB"})"},
       {R"({"country":"US","zip":"1234 AB"})", R"({"country":"NL","zip":"12345"})"}},
      {R"({"type":"integer","if":{"maximum":0},"then":{"minimum":-3}})", {"-3", "0", "1", "99"}, {"-4", "-100"}},
      {R"({"if":{"type":"string"},"then":{"minLength":2},"else":{"type":"null"}})",
       {R"("ab")", "null"},
       {R"("a")", "1"}},
  });
}

TEST(SchemaKeywords, ExactlyOne) {
  check_cases({
      {R"({"oneOf":[{"type":"integer"},{"minimum":2}]})", {"1", "2.5"}, {"3", "1.5"}},
      {R"({"oneOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},
                    {"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}]})",
       {R"({"a":"x"})", R"({"b":"x"})"},
       {R"({"a":"x","b":"y"})", R"({"b":"x","a":"y"})", "{}"}},
      {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"oneOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]})",
       {R"({"a":1})", R"({"b":1})", R"({"c":1})"},
       {"{}", R"({"a":1,"b":1})", R"({"a":1,"b":1,"c":1})"}},
      {R"({"oneOf":[{"type":"string","maxLength":3},{"type":"string","minLength":2}]})",
       {R"("a")", R"("abcd")"},
       {R"("ab")", R"("abc")"}},
      {R"({"oneOf":[{"enum":[1,2]},{"enum":[2,3]}]})", {"1", "3"}, {"2"}},
      {R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false},
                    {"type":"object","properties":{"a":{},"b":{}},"required":["a","b"],"additionalProperties":false}]})",
       {R"({"a":1})", R"({"a":1,"b":1})"},
       {"{}", R"({"b":1})"}},
  });
}

TEST(SchemaKeywords, Arrays) {
  check_cases({
      {R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"minContains":2})",
       {"[5,6]", "[1,5,2,9,3]"},
       {"[]", "[5]", "[1,5,2]"}},
      {R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"maxContains":1})",
       {"[5]", "[1,7,2]"},
       {"[]", "[1]", "[5,6]"}},
      {R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"minContains":0,"maxContains":1})",
       {"[]", "[1]", "[1,7,2]"},
       {"[5,6]"}},
      {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":1})",
       {R"(["a"])", R"(["c","a"])", R"(["b","a","c"])"},
       {"[]", R"(["a","a"])", R"(["a","b","a"])"}},
      {R"({"type":"array","prefixItems":[{"type":"boolean"},{"type":"boolean"}],"items":false,"uniqueItems":true})",
       {"[]", "[true]", "[false,true]"},
       {"[true,true]", "[true,false,true]"}},
      {R"({"allOf":[{"type":"array","items":{"type":"integer"}},{"prefixItems":[{"minimum":3}]}]})",
       {"[]", "[3]", "[4,1]"},
       {"[1]", "[null]"}},
  });
}

TEST(SchemaKeywords, WhatOthersHaveNotEvaluated) {
  check_cases({
      {R"({"type":"object","allOf":[{"properties":{"a":{}}}],"properties":{"b":{}},"unevaluatedProperties":false})",
       {"{}", R"({"b":1})", R"({"b":1,"a":1})"},
       {R"({"c":1})"}},
      {R"({"type":"object","properties":{"a":{}},"anyOf":[{"properties":{"b":{"const":1}},"required":["b"]},{}],
           "unevaluatedProperties":{"type":"null"}})",
       {R"({"a":1,"b":1})", R"({"a":1,"x":null})", R"({"b":null})"},
       {R"({"a":1,"b":2})", R"({"x":1})"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"}],"unevaluatedItems":{"type":"null"}})",
       {"[]", "[1]", "[1,null,null]"},
       {"[null]", "[1,1]"}},
  });
}

TEST(SchemaKeywords, Merging) {
  check_cases({
      {R"({"allOf":[{"type":"object","properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]})",
       {"{}", R"({"a":1})"},
       {R"({"b":1})", R"({"a":1,"b":1})"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}},{"properties":{"b":{"minimum":3}}}]})",
       {R"({"a":[],"b":4})", R"({"b":3,"x":1})"},
       {R"({"b":2})", R"({"b":3.5})", R"({"x":"y"})"}},
      {R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"}],"maxLength":3})",
       {R"("ab")", R"("bca")"},
       {R"("a")", R"("b")", R"("abcd")"}},
      {R"({"enum":["a","abc",1,9,[1],[2]],"minLength":2,"maximum":5,"items":{"const":2}})",
       {R"("abc")", "1", "[2]"},
       {R"("a")", "9", "[1]"}},
      {R"({"type":"integer","minimum":0,"exclusiveMinimum":1,"maximum":9,"exclusiveMaximum":4})",
       {"2", "3"},
       {"1", "4"}},
  });
}

TEST(SchemaKeywords, Multiples) {
  check_cases({
      {R"({"type":"integer","multipleOf":7,"minimum":3,"maximum":30})", {"7", "14", "28"}, {"3", "8", "35", "0"}},
      {R"({"type":"number","multipleOf":0.25})", {"0", "0.25", "-1.5", "3", "2.50"}, {"0.3", "1.125"}},
      {R"({"type":"integer","allOf":[{"multipleOf":4},{"multipleOf":6}]})", {"0", "12", "-24"}, {"4", "6", "18"}},
      {R"({"type":"number","multipleOf":5})", {"5", "100", "-10"}, {"2", "5.5"}},
  });
  const auto grammar = compile_json_schema(R"({"type":"integer","multipleOf":13})");
  for (int i = -300; i < 300; ++i) EXPECT_EQ(accepts(grammar, std::to_string(i)), i % 13 == 0) << i;
}

TEST(SchemaKeywords, References) {
  check_cases({
      {R"({"$ref":"#here","$defs":{"a":{"$anchor":"here","type":"null"}}})", {"null"}, {"1"}},
      {R"({"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false})",
       {"{}", R"({"next":{"next":{}}})"},
       {R"({"next":1})"}},
  });
  EXPECT_TRUE(accepts(R"({"$id":"http://x.org/a/root.json","$ref":"item.json",
      "$defs":{"i":{"$id":"item.json","allOf":[{"$ref":"#/$defs/deep"}],"$defs":{"deep":{"type":"null"}}}}})",
                      "null"));
  EXPECT_TRUE(accepts(
      R"({"$ref":"urn:x:y#z","$defs":{"i":{"$id":"urn:x:y","$defs":{"d":{"$anchor":"z","enum":[7]}}}}})", "7"));
  // A tool's schema within another: its pointers begin at the root, though it has a name of its own.
  EXPECT_TRUE(
      accepts(R"({"$ref":"#/$defs/t","$defs":{"t":{"$id":"http://x.org/t","items":{"$ref":"#/$defs/t/$defs/u"},
      "type":"array","$defs":{"u":{"enum":[7]}}}}})",
              "[7]"));
  EXPECT_THROW(
      compile_json_schema(R"({"$ref":"#x","$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x","type":"null"}}})"), Error);
  EXPECT_TRUE(accepts(R"({"$dynamicRef":"#d","$defs":{"i":{"$dynamicAnchor":"d","enum":[7]}}})", "7"));
}

}  // namespace
}  // namespace kvasir::grammar::testing
