// Schemas as the helpers of other languages write them: zod 4 (z.toJSONSchema) and pydantic 2 (model_json_schema).
#include <gtest/gtest.h>

#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

struct StringCase {
  const char* schema;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

void check_strings(const std::vector<StringCase>& cases) {
  for (const StringCase& one : cases) {
    const auto grammar = compile_json_schema(one.schema);
    for (const std::string& text : one.good) EXPECT_TRUE(accepts(grammar, Json(text).dump())) << one.schema << text;
    for (const std::string& text : one.bad) EXPECT_FALSE(accepts(grammar, Json(text).dump())) << one.schema << text;
  }
}

TEST(SchemaHelpers, ZodStrings) {
  check_strings({
      {R"({"type":"string","format":"email","pattern":"^(?:[A-Za-z0-9_'+\\-]+\\.)*[A-Za-z0-9_'+\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})",
       {"ada@example.org", "a.b+c@mail.example.com"},
       {"ada", "ada@", "@example.org", "a b@example.org"}},
      {R"({"type":"string","format":"email","pattern":"^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"})",
       {"ada@example.org"},
       {".ada@example.org", "a..b@example.org"}},
      {R"({"type":"string","format":"uuid","pattern":"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$"})",
       {"123e4567-e89b-12d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"},
       {"123e4567-e89b-02d3-a456-426614174000", "123e4567"}},
      {R"({"type":"string","format":"date-time","pattern":"^(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48]|[02468][048]00|[13579][26]00)-02-29|\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|(?:02)-(?:0[1-9]|1\\d|2[0-8])))T(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:Z))$"})",
       {"2024-02-29T12:34:56Z", "2023-01-31T00:00:00.5Z"},
       {"2023-02-29T12:34:56Z", "2024-02-29T12:34:56+01:00", "2024-02-29"}},
      {R"({"type":"string","format":"duration","pattern":"^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$"})",
       {"P1W", "P1Y2M3D", "PT1H30M", "P1DT2H"},
       {"P", "PT", "P1", "1D"}},
      {R"({"type":"string","format":"hostname","pattern":"^(?=.{1,253}\\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\\.?$"})",
       {"example.org", "a-b.c"},
       {"-a", "a..b", ""}},
      {R"({"type":"string","format":"uri"})",
       {"https://example.org", "http://a.b/c?d=e#f", "ftp://files.example.com:21/x%20y"},
       {"example.org", "http://", "http://a b", "//x.y"}},
      {R"({"type":"string","format":"jwt"})",
       {"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhIn0.c2lnbmVk",
        "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhYiJ9.c2lnbmU"},
       {"eyJoelionon.eyJzdWIi.abcd", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIi", "a.b.c"}},
      {R"({"type":"string","format":"fraction"})", {"1/3", "-2/10", "7"}, {"1/0", "a", "1/"}},
      {R"({"type":"string","format":"name-email"})",
       {"Ada Byron <ada@example.org>"},
       {"Ada", "ada@example.org>", "Ada <ada>"}},
      {R"({"type":"string","format":"color"})", {"#00ff7f"}, {"#00f", "red"}},
      {R"({"type":"string","format":"phone"})", {"+4917012345678"}, {"0170", "+0170123456"}},
      {R"({"type":"string","format":"starts_with","pattern":"^ab.*"})", {"ab", "abc"}, {"a", "xab"}},
      {R"({"type":"string","format":"lowercase","pattern":"^[^A-Z]*$"})", {"", "abc1"}, {"aB"}},
      {R"({"type":"string","format":"cuid2","pattern":"^[0-9a-z]+$"})", {"x1"}, {"", "X"}},
      {R"({"type":"string","format":"base64","contentEncoding":"base64","pattern":"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$"})",
       {"", "YQ==", "YWI=", "YWJj"},
       {"YQ=", "Y"}},
      {R"({"type":"string","pattern":"^a--?\\d+(?:\\.\\d+)?-(x|y)$"})", {"a-1-x", "a--2.5-y"}, {"a-x-x"}},
      {R"({"type":"string","format":"ipv6","pattern":"^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|:((:[0-9a-fA-F]{1,4}){1,7}|:))$"})",
       {"1:2:3:4:5:6:7:8"},
       {"1:2", "g::"}},
  });
}

TEST(SchemaHelpers, ZodObjects) {
  check_cases({
      {R"({"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"number"}})",
       {"{}", R"({"a":1,"b":2.5})"},
       {R"({"a":"x"})"}},
      {R"({"type":"object","propertyNames":{"type":"string","enum":["a","b"]},"additionalProperties":{"type":"number"},"required":["a","b"]})",
       {R"({"a":1,"b":2})"},
       {"{}", R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","propertyNames":{"type":"string","pattern":"^k_"},"additionalProperties":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}})",
       {R"({"k_":1,"k_x":-9007199254740991})"},
       {R"({"x":1})", R"({"k_":9007199254740992})"}},
      {R"({"oneOf":[{"type":"object","properties":{"kind":{"type":"string","const":"a"},"x":{"type":"integer"}},"required":["kind","x"],"additionalProperties":false},
                    {"type":"object","properties":{"kind":{"type":"string","const":"b"},"y":{"type":"string"}},"required":["kind","y"],"additionalProperties":false}]})",
       {R"({"kind":"a","x":1})", R"({"kind":"b","y":""})"},
       {R"({"kind":"a","y":""})", R"({"kind":"c","x":1})"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false},
                    {"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"string"}}]})",
       {R"({"a":"x"})"},
       {"{}", R"({"a":"x","b":"y"})"}},
      {R"({"type":"object","properties":{"a":{"not":{}}},"additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","patternProperties":{"^S_":{"type":"string"}}})", {R"({"S_1":""})"}, {R"({"S_1":1})"}},
      {R"({"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"null"},{"type":"array","items":{"$ref":"#"}},
                    {"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"$ref":"#"}}]})",
       {"1", R"([{"a":[null,true]},"x"])"},
       {"[1,]", "x"}},
      {R"({"type":"number","minimum":-3.4028234663852886e+38,"maximum":3.4028234663852886e+38})",
       {"1.5", "-7"},
       {"x"}},
      {R"({"type":"number","multipleOf":5})", {"5", "-10"}, {"3"}},
      {R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"}]})", {R"("ab")"}, {R"("a")"}},
  });
}

TEST(SchemaHelpers, Pydantic) {
  check_cases({
      {R"({"additionalProperties":{"type":"integer"},"propertyNames":{"enum":["a","b"]},"title":"F","type":"object"})",
       {"{}", R"({"a":1,"b":2})"},
       {R"({"c":1})"}},
      {R"({"$defs":{"Color":{"enum":["r","g"],"title":"Color","type":"string"}},"items":{"$ref":"#/$defs/Color"},"title":"F","type":"array","uniqueItems":true})",
       {"[]", R"(["g","r"])"},
       {R"(["r","r"])"}},
      {R"({"$defs":{"Cat":{"properties":{"kind":{"const":"cat","title":"Kind","type":"string"},"m":{"title":"M","type":"integer"}},"required":["kind","m"],"title":"Cat","type":"object"},
                    "Dog":{"properties":{"kind":{"const":"dog","title":"Kind","type":"string"},"b":{"title":"B","type":"number"}},"required":["kind","b"],"title":"Dog","type":"object"}},
           "discriminator":{"mapping":{"cat":"#/$defs/Cat","dog":"#/$defs/Dog"},"propertyName":"kind"},"oneOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}],"title":"F"})",
       {R"({"kind":"cat","m":1})", R"({"kind":"dog","b":1.5})"},
       {R"({"kind":"cat","b":1.5})", R"({"kind":"cow"})"}},
      {R"({"anyOf":[{"type":"number"},{"pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$","type":"string"}],"title":"F"})",
       {"1.5", R"("-0.25")", R"("12")"},
       {R"("")", R"("-")", R"("x")"}},
      {R"({"patternProperties":{"^k":{"type":"integer"}},"title":"F","type":"object"})",
       {R"({"k1":1})"},
       {R"({"k1":""})"}},
      {R"({"additionalProperties":{"type":"integer"},"maxProperties":3,"minProperties":1,"title":"F","type":"object"})",
       {R"({"a":1})", R"({"a":1,"b":2,"c":3})"},
       {"{}", R"({"a":1,"b":2,"c":3,"d":4})"}},
      {R"({"exclusiveMaximum":9,"exclusiveMinimum":1,"multipleOf":2,"title":"F","type":"integer"})",
       {"2", "8"},
       {"1", "3", "10"}},
      {R"({"contentMediaType":"application/json","contentSchema":{"type":"array"},"title":"F","type":"string"})",
       {R"("[]")"},
       {"[]"}},
      {R"({"format":"password","title":"F","type":"string","writeOnly":true})", {R"("any")"}, {"1"}},
  });
  check_strings({
      {R"x({"anyOf":[{"type":"number"},{"pattern":"^(?!^[-+.]*$)[+-]?0*(?:\\d{0,3}|(?=[\\d.]{1,6}0*$)\\d{0,3}\\.\\d{0,2}0*$)","type":"string"}]})x",
       {"1.25", "+007", "123.4500"},
       {".", "", "-+."}},
      {R"({"format":"uri","maxLength":2083,"minLength":1,"title":"F","type":"string"})",
       {"https://x.org/"},
       {"", "x"}},
      {R"({"format":"uuid4","title":"F","type":"string"})",
       {"123e4567-e89b-42d3-a456-426614174000"},
       {"123e4567-e89b-12d3-a456-426614174000"}},
      {R"({"format":"ipvanyaddress","title":"F","type":"string"})", {"10.0.0.1", "1:2:3:4:5:6:7:8"}, {"10.0.0"}},
      {R"({"format":"ipv4network","title":"F","type":"string"})", {"10.0.0.0/8", "1.2.3.4/32"}, {"10.1.0.0/8"}},
      {R"({"format":"hostname"})", {"example.org", "a-b.c-d-e.fg"}, {"xn--x", "a--b.c", "a.b-"}},
      {R"({"format":"regex","title":"F","type":"string"})", {"^a+$", "(ab|c)*[a-z]\\d{2}"}, {"(", "a**", "[", "a{2"}},
  });
}

}  // namespace
}  // namespace kvasir::grammar::testing
