// JSON from strangers: whatever it is, it is read or refused with a 400.
#include "server/api/json_fields.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "cpu_time.h"
#include "server/api/api_error.h"

namespace kvasir::testing {
namespace {

int status_of(const std::string& text) {
  try {
    parse_json(text);
    return 200;
  } catch (const ApiError& error) {
    EXPECT_FALSE(error_body(Dialect::kOpenAi, error).empty());
    return error.reply().status;
  }
}

std::string param_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.reply().status, 400);
    return error.reply().param;
  }
  return "nothing was refused";
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  const std::vector<std::string> bad{
      "",         " ",         "{",      "}",           "{]",         "nul",
      "{\"a\":}", "{\"a\" 1}", "[1,]",   "{'a':1}",     "\"\xff\"",   "{\"a\":\"\xc3\"}",
      "1e999",    "-",         "01",     "\"\\ud800\"", "{\"a\":1}x", std::string("\0", 1),
      "\"\n\"",   "NaN",       "[1e400]"};
  for (const std::string& text : bad) EXPECT_EQ(status_of(text), 400) << text;
}

TEST(ParseJson, ReadsWhatIsJson) {
  for (const char* text : {"{}", "[]", "1", "null", "\"\\u00e9\"", "{\"a\":[1,2.5,-3e5,true,null,\"x\"]}",
                           "123456789012345678901234567890"}) {
    EXPECT_EQ(status_of(text), 200) << text;
  }
}

TEST(ParseJson, BoundsDepthAndCount) {
  EXPECT_EQ(status_of(std::string(60, '[') + std::string(60, ']')), 200);
  EXPECT_EQ(status_of(std::string(1'000'000, '[')), 400);
  EXPECT_EQ(status_of(std::string(100, '[') + std::string(100, ']')), 400);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  EXPECT_EQ(status_of(deep), 400);
  std::string many = "[1";
  for (int i = 0; i < (1 << 21); ++i) many += ",1";
  EXPECT_EQ(status_of(many + "]"), 400);
}

TEST(ParseJson, ManyKeysAreNotSlow) {
  std::string text = "{\"a\":1";
  for (int i = 0; i < 200'000; ++i) text += ",\"" + std::to_string(i) + "\":1";
  EXPECT_EQ(parse_json(text + "}").size(), 200'001U);
}

// Far above what they take, and far below what reading took that looked at all siblings again for each object.
TEST(ParseJson, ManyObjectsAreNotSlow) {
  std::string in_array = "[{}";
  std::string in_object = R"({"a":{})";
  for (int i = 0; i < 200'000; ++i) {
    in_array += ",{}";
    in_object += fmt::format(R"(,"{}":{{}})", i);
  }
  EXPECT_LT(cpu_seconds([&] { EXPECT_EQ(parse_json(in_array + "]").size(), 200'001U); }), 5);
  EXPECT_LT(cpu_seconds([&] { EXPECT_EQ(parse_json(in_object + "}").size(), 200'001U); }), 5);
}

TEST(ParseJson, StopsAtTheLimitAndNotAtTheEnd) {
  std::string many;
  for (int i = 0; i < 2'000'000; ++i) many += "[[],";  // neither closed nor JSON
  try {
    parse_json("[" + many, {.depth = 3'000'000, .containers = 1000});
    FAIL() << "it was read";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.message(), "the JSON has more than 1000 objects and arrays");
  }
  EXPECT_EQ(status_of(R"({"a":1,"a":[{"b":2}],"a":{"c":3}})"), 200);
  EXPECT_EQ(parse_json(R"({"a":1,"a":[{"b":2}],"a":{"c":3}})").dump(), R"({"a":{"c":3}})");  // the last one stays
  EXPECT_THROW(parse_json(R"({"a":1,"b":2})", {.keys = 1}), ApiError);
  EXPECT_THROW(parse_json(R"({"a":1,"b":2})", {.values = 4}), ApiError);
  EXPECT_NO_THROW(parse_json(R"({"a":1,"b":2})", {.values = 5}));
  EXPECT_THROW(parse_json("[1,2]", {.bytes = 4}), ApiError);
}

TEST(ParseJson, KeepsEveryKindOfValueAndTheirOrder) {
  const char* text =
      R"({"z":[1,-2,2.5,true,false,null,"x",[],{}],"a":{"b":[{"c":"\u00e9"}]},"m":18446744073709551615})";
  EXPECT_EQ(parse_json(text).dump(), OrderedJson::parse(text).dump());
}

TEST(Fields, NamesWhatIsWrong) {
  const Json body =
      parse_json(R"({"n":1.5,"t":"x","b":1,"s":2,"o":[],"big":1e18,"null":null,"ok":3.0,"in":{"x":-1}})");
  const Fields fields(body);
  EXPECT_EQ(param_of([&] { fields.integer("n", {0, 10}); }), "n");
  EXPECT_EQ(param_of([&] { fields.number("t", {0, 10}); }), "t");
  EXPECT_EQ(param_of([&] { fields.boolean("b"); }), "b");
  EXPECT_EQ(param_of([&] { fields.text("s"); }), "s");
  EXPECT_EQ(param_of([&] { fields.object("o"); }), "o");
  EXPECT_EQ(param_of([&] { fields.integer("big", {0, 100}); }), "big");
  EXPECT_EQ(param_of([&] { fields.required("none"); }), "none");
  EXPECT_EQ(param_of([&] { fields.required("null"); }), "null");
  EXPECT_EQ(param_of([&] { fields.object("in")->integer("x", {0, 1}); }), "in.x");
  EXPECT_EQ(fields.integer("ok", {0, 10}), 3);
  EXPECT_EQ(fields.integer("null", {0, 10}), std::nullopt);
}

TEST(Fields, LargeIntegersDoNotOverflow) {
  const Json body = parse_json(
      R"({"a":9223372036854775807,"b":-9223372036854775808,"c":9.3e18,"d":18446744073709551615,"e":-1e300})");
  const Fields fields(body);
  EXPECT_EQ(fields.integer("a", {-0x1p63, 0x1p63}), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(fields.integer("b", {-0x1p63, 0x1p63}), std::numeric_limits<std::int64_t>::min());
  for (const char* name : {"c", "d", "e"})
    EXPECT_EQ(param_of([&] { fields.integer(name, {-0x1p63, 0x1p63}); }), name);
}

TEST(Fields, TokenIdsAreChecked) {
  EXPECT_EQ(token_ids(parse_json("[0,5,2147483647]"), "p"), (std::vector<std::int32_t>{0, 5, 2147483647}));
  for (const char* text : {"[-1]", "[2147483648]", "[1.5]", "[\"1\"]", "[[1]]", "{}", "1", "[1e30]", "[null]"}) {
    EXPECT_EQ(param_of([&] { token_ids(parse_json(text), "p"); }), "p") << text;
  }
}

TEST(ToText, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(to_text({{"a", "x\xff"}}), "{\"a\":\"x\xEF\xBF\xBD\"}");
  EXPECT_EQ(to_text({{"a", "line\nbreak"}}), R"({"a":"line\nbreak"})");
}

TEST(ErrorBody, HasAllFourKeysAndTheOthersShapes) {
  const ApiError error({.param = "n"}, "no \"n\"");
  EXPECT_EQ(error_body(Dialect::kOpenAi, error),
            R"({"error":{"message":"no \"n\"","type":"invalid_request_error","param":"n","code":null}})");
  EXPECT_EQ(error_body(Dialect::kAnthropic, error),
            R"({"type":"error","error":{"type":"invalid_request_error","message":"no \"n\""}})");
  EXPECT_EQ(error_body(Dialect::kOllama, error), R"({"error":"no \"n\""})");
}

}  // namespace
}  // namespace kvasir::testing
