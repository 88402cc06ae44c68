// Calls in the text of an answer: the same whatever pieces it comes in, and nothing lost that is no call.
#include "server/answer/tool_call_reader.h"

#include <gtest/gtest.h>

#include "cpu_time.h"

namespace kvasir::testing {
namespace {

ToolReading reading(ToolFormat format) { return {format, {"f", "get_weather"}, true, "call_", 24}; }

// text|f({…})|text, of all parts put together.
std::string read(const ToolReading& how, const std::string& text, size_t piece) {
  ToolCallReader reader(how);
  std::string out;
  bool in_call = false;
  const auto add = [&](const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) {
      if (const auto* head = std::get_if<ToolCallHead>(&part)) {
        out += (in_call ? ")|" : out.empty() ? "" : "|") + head->name + "(";
        in_call = true;
      } else if (const auto* arguments = std::get_if<ToolArguments>(&part)) {
        out += arguments->json;
      } else {
        out += (in_call ? ")|" : "") + std::get<std::string>(part);
        in_call = false;
      }
    }
  };
  for (size_t at = 0; at < text.size(); at += piece) add(reader.push(text.substr(at, piece)));
  add(reader.finish());
  return out + (in_call ? ")" : "");
}

void expect_read(const ToolReading& how, const std::string& text, const std::string& expected) {
  for (size_t piece = 1; piece <= text.size(); ++piece) EXPECT_EQ(read(how, text, piece), expected) << piece;
}

// White space may be the beginning of a call, or of nothing: it is not held back, and read again, for ever.
TEST(ToolCallReader, WhiteSpaceWithoutEndCostsLittle) {
  for (const ToolFormat format : {ToolFormat::kHermes, ToolFormat::kMistral, ToolFormat::kLlama, ToolFormat::kJson}) {
    for (const std::string begin : {"", "<tool_call>", "[TOOL_CALLS]", "[TOOL_CALLS]f[ARGS]{}", "{"}) {
      ToolCallReader reader(reading(format));
      reader.push(begin);
      EXPECT_LT(cpu_seconds([&] {
                  for (int i = 0; i < 200'000; ++i) reader.push(" ");
                }),
                4)
          << begin;
    }
  }
}

TEST(ToolCallReader, Hermes) {
  const ToolReading hermes = reading(ToolFormat::kHermes);
  expect_read(hermes, "just text < and <tool", "just text < and <tool");
  expect_read(hermes, R"(<tool_call>
{"name": "f", "arguments": {"a": "}\"{", "b": [{}]}}
</tool_call>)",
              R"(f({"a": "}\"{", "b": [{}]}))");
  expect_read(hermes,
              "Let me see.\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
              "<tool_call>\n{\"name\":\"get_weather\",\"arguments\":{\"x\":1}}\n</tool_call>\nDone. ",
              "Let me see.|f({})|get_weather({\"x\":1})|Done. ");
  // In another order, with more in it.
  expect_read(hermes, R"(<tool_call>{"id": 3, "arguments": {"x": 1}, "name": "f"}</tool_call>)", R"(f({"x":1}))");
  // No calls: unknown, damaged, not an object.
  for (const char* text :
       {"<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>", "<tool_call>\nhello</tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":7}</tool_call> x"}) {
    expect_read(hermes, text, text);
  }
}

TEST(ToolCallReader, Llama) {
  const ToolReading llama = reading(ToolFormat::kLlama);
  expect_read(llama, R"({"name": "f", "parameters": {"a": 1}})", R"(f({"a": 1}))");
  expect_read(llama, R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "get_weather", "parameters": {}})",
              "f({})|get_weather({})");
  expect_read(llama, R"({"type": "function", "name": "f", "parameters": {"z": 1, "a": 2}})", R"(f({"z":1,"a":2}))");
  for (const char* text :
       {R"({"name": "Bob", "age": 7})", "Hello {\"name\": \"f\", \"parameters\": {}}", "{", "<|py"})
    expect_read(llama, text, text);
}

TEST(ToolCallReader, Mistral) {
  const ToolReading mistral = reading(ToolFormat::kMistral);
  expect_read(mistral,
              R"([TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "abc"}, {"name": "f", "arguments": {}}])",
              R"(f({"a": 1})|f({}))");
  expect_read(mistral, R"(Hm. [TOOL_CALLS] [{"name": "f", "arguments": {}}])", "Hm.|f({})");
  expect_read(mistral, "[TOOL_CA", "[TOOL_CA");
  ToolReading nine = mistral;
  nine.id_prefix.clear();
  nine.id_digits = 9;
  ToolCallReader reader(nine);
  const auto parts = reader.push(R"([TOOL_CALLS][{"name": "f", "arguments": {}}])");
  EXPECT_EQ(std::get<ToolCallHead>(parts.at(0)).id.size(), 9U);
}

TEST(ToolCallReader, MistralsNewerWay) {
  const ToolReading mistral = reading(ToolFormat::kMistral);
  expect_read(mistral, R"([TOOL_CALLS]f[ARGS]{"a": "}\"{", "b": [{}]})", R"(f({"a": "}\"{", "b": [{}]}))");
  expect_read(mistral, R"(Hm. [TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]get_weather[ARGS] {"x": {}} Done.)",
              R"(Hm.|f({"a": 1})|get_weather({"x": {}})|Done.)");
  expect_read(mistral, R"([TOOL_CALLS]f[CALL_ID]aB3[ARGS]{} [TOOL_CALLS][{"name": "f", "arguments": {}}])",
              "f({})|f({})");
  // No calls: unknown, damaged, cut short.
  for (const char* text : {"[TOOL_CALLS]g[ARGS]{}", "[TOOL_CALLS]f(1)", "[TOOL_CALLS]f[ARGS]7", "[TOOL_CALLS]f[AR",
                           "[TOOL_CALLS]f", "[TOOL_CALLS][ARGS]{}x", "[TOOL_CALLS]f[CALL_ID]"})
    expect_read(mistral, text, text);
  ToolReading one = mistral;
  one.parallel = false;
  expect_read(one, "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]f[ARGS]{}", "f({})");
}

TEST(ToolCallReader, AListOfCallsThatMustCome) {
  const ToolReading json = reading(ToolFormat::kJson);
  expect_read(json, R"([{"name":"f","arguments":{"a":1}}, {"name":"get_weather","arguments":{}}])",
              R"(f({"a":1})|get_weather({}))");
  expect_read(reading(ToolFormat::kLlama), R"([{"name":"f","parameters":{}}])", R"([{"name":"f","parameters":{}}])");
}

TEST(ToolCallReader, ArgumentsComeAsTheyAreWritten) {
  ToolCallReader reader(reading(ToolFormat::kJson));
  EXPECT_TRUE(reader.push(R"({"name": "f", "argum)").empty());
  const auto parts = reader.push(R"(ents": {"a": "on)");
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(std::get<ToolCallHead>(parts[0]).name, "f");
  EXPECT_TRUE(std::get<ToolCallHead>(parts[0]).id.starts_with("call_"));
  EXPECT_EQ(std::get<ToolArguments>(parts[1]).json, R"({"a": "on)");
  EXPECT_EQ(std::get<ToolArguments>(reader.push("ce").at(0)).json, "ce");
  EXPECT_TRUE(reader.finish().empty());  // cut short: what there is was given
  EXPECT_EQ(reader.calls(), 1U);
}

TEST(ToolCallReader, OnlyOneWhereOnlyOneIsWanted) {
  ToolReading one = reading(ToolFormat::kHermes);
  one.parallel = false;
  expect_read(one,
              "a <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> b "
              "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
              "a|f({})");
}

TEST(ToolCallReader, HostileTextEndsSomewhere) {
  const std::string deep(200'000, '[');
  ToolCallReader nested(reading(ToolFormat::kHermes));
  nested.push("<tool_call>{\"arguments\":" + deep);
  EXPECT_EQ(std::get<std::string>(nested.finish().at(0)).size(), deep.size() + 24);
  std::string endless = "{\"name\": \"";
  ToolCallReader named(reading(ToolFormat::kJson));
  named.push(endless);
  for (int i = 0; i < 50'000; ++i) named.push("aaaa");
  EXPECT_EQ(named.calls(), 0U);
}

}  // namespace
}  // namespace kvasir::testing
