// Calls in the text of an answer: the same whatever pieces it comes in, and nothing lost that is no call.
#include "server/answer/tool_call_reader.h"

#include <gtest/gtest.h>

#include "cpu_time.h"

namespace kvasir::testing {
namespace {

const OrderedJson& parameters() {
  static const OrderedJson kParameters = OrderedJson::parse(R"({"type": "object", "properties": {
      "city": {"type": "string"}, "n": {"type": "integer"}, "on": {"type": "boolean"}, "list": {"type": "array"},
      "maybe": {"type": ["string", "null"]}, "any": {}, "unit": {"$ref": "#/$defs/unit"}, "either": {"anyOf":
      [{"type": "string"}, {"type": "number"}]}}, "$defs": {"unit": {"enum": ["C", "F"]}, "loop": {"$ref": "#/$defs/loop"}}})");
  return kParameters;
}

ToolReading reading(const ToolFormat& format) {
  static const auto kTools = std::make_shared<const std::vector<ReadableTool>>(
      std::vector<ReadableTool>{{"f", parameters()}, {"get_weather", parameters()}});
  return {&format, kTools, true, "call_", 24};
}

ToolReading reading(std::string_view name) {
  return name == "json" ? reading(forced_format()) : reading(*find_tool_format(name));
}

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
  for (const ToolFormat& format : tool_formats()) {
    std::vector<std::string> begins{"", "[TOOL_CALLS]f[ARGS]{}", "{"};
    for (const ToolFormat::Mark& mark : format.marks) begins.emplace_back(mark.text);
    for (const std::string& begin : begins) {
      ToolCallReader reader(reading(format));
      reader.push(begin);
      EXPECT_LT(cpu_seconds([&] {
                  for (int i = 0; i < 200'000; ++i) reader.push(" ");
                }),
                4)
          << format.name << begin;
    }
  }
}

TEST(ToolCallReader, Hermes) {
  const ToolReading hermes = reading("hermes");
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
  const ToolReading llama = reading("llama3");
  expect_read(llama, R"({"name": "f", "parameters": {"a": 1}})", R"(f({"a": 1}))");
  expect_read(llama, R"(<|python_tag|>{"name": "f", "parameters": {}}; {"name": "get_weather", "parameters": {}})",
              "f({})|get_weather({})");
  expect_read(llama, R"({"type": "function", "name": "f", "parameters": {"z": 1, "a": 2}})", R"(f({"z":1,"a":2}))");
  for (const char* text :
       {R"({"name": "Bob", "age": 7})", "Hello {\"name\": \"f\", \"parameters\": {}}", "{", "<|py"})
    expect_read(llama, text, text);
}

TEST(ToolCallReader, Mistral) {
  const ToolReading mistral = reading("mistral");
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
  const ToolReading mistral = reading("mistral");
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
  const ToolReading json = reading("json");
  expect_read(json, R"([{"name":"f","arguments":{"a":1}}, {"name":"get_weather","arguments":{}}])",
              R"(f({"a":1})|get_weather({}))");
  expect_read(reading("llama3"), R"([{"name":"f","parameters":{}}])", R"([{"name":"f","parameters":{}}])");
}

TEST(ToolCallReader, ArgumentsComeAsTheyAreWritten) {
  ToolCallReader reader(reading("json"));
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
  ToolReading one = reading("hermes");
  one.parallel = false;
  expect_read(one,
              "a <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> b "
              "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
              "a|f({})");
}

TEST(ToolCallReader, QwensTags) {
  const ToolReading qwen = reading("qwen3_coder");
  expect_read(qwen,
              "Let me.\n\n<tool_call>\n<function=f>\n<parameter=city>\nNew \"York\"\n\nCity\n</parameter>\n"
              "<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_weather>\n"
              "</function>\n</tool_call>",
              R"(Let me.|f({"city":"New \"York\"\n\nCity","n":3})|get_weather({}))");
  // The schema says what a text is: a string that looks like a number, Python's words, references, several types.
  expect_read(
      qwen,
      "<tool_call><function=f><parameter=city>7</parameter><parameter=on>True</parameter>"
      "<parameter=list>[1, {\"a\": \"<\"}]</parameter><parameter=maybe>null</parameter>"
      "<parameter=any>{\"b\": 1}</parameter><parameter=unit>C</parameter><parameter=either>1.5</parameter>"
      "<parameter=new>x y</parameter><parameter=n>many</parameter></function></tool_call>",
      R"(f({"city":"7","on":true,"list":[1,{"a":"<"}],"maybe":null,"any":{"b":1},"unit":"C","either":1.5,"new":"x y","n":"many"}))");
  // Without the first tag, without the last ones, with text in between.
  expect_read(qwen, "Hm. <function=f>\n<parameter=city>\na</b>\n</parameter>\n</function>",
              R"(Hm.|f({"city":"a</b>"}))");
  expect_read(qwen, "<tool_call><function=f><parameter=city>a</parameter> so </tool_call> Done.",
              R"(f({"city":"a"})|Done.)");
  for (const char* text :
       {"<tool_call><function=g></function></tool_call>", "a <function=g> b", "<tool_call>hello",
        "<tool_call>\n<function=", "<tool_call><function=f", "x <func", "<tool_call> <function=> "})
    expect_read(qwen, text, text);
  ToolCallReader reader(qwen);
  reader.push("<tool_call><function=f><parameter=city>");
  EXPECT_EQ(std::get<ToolArguments>(reader.push("Par").at(0)).json, "Par");  // strings come as they are written
}

TEST(ToolCallReader, SeedsTags) {
  expect_read(reading("seed_oss"),
              "<seed:tool_call>\n<function=f>\n<parameter=city>a\nb</parameter>\n<parameter=n>3</parameter>\n"
              "</function>\n</seed:tool_call>",
              R"(f({"city":"a\nb","n":3}))");
}

TEST(ToolCallReader, GlmsTags) {
  const ToolReading glm = reading("glm4");
  expect_read(glm,
              "I look.\n<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Köln</arg_value>\n<arg_key>n</arg_key>\n"
              "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>get_weather\n</tool_call>",
              R"(I look.|f({"city":"Köln","n":3})|get_weather({}))");
  expect_read(glm, "<tool_call>f<arg_key>city</arg_key><arg_value></arg_value></tool_call>ok",
              R"(f({"city":""})|ok)");
  for (const char* text : {"<tool_call>g\n</tool_call>", "<tool_call>", "<tool_call>f", "a<tool"})
    expect_read(glm, text, text);
}

TEST(ToolCallReader, MiniMaxsTags) {
  const ToolReading minimax = reading("minimax_m2");
  expect_read(minimax,
              "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"city\">a \\ b</parameter>\n"
              "<parameter name=\"list\">[1]</parameter>\n</invoke>\n<invoke name=\"get_weather\">\n</invoke>\n"
              "</minimax:tool_call> Done.",
              R"(f({"city":"a \\ b","list":[1]})|get_weather({})|Done.)");
  // The second is none: what is left is text.
  expect_read(minimax,
              "<minimax:tool_call><invoke name=\"f\"></invoke><invoke name=\"g\"></invoke></minimax:tool_call>",
              "f({})|<invoke name=\"g\"></invoke></minimax:tool_call>");
}

TEST(ToolCallReader, DeepSeeksMarkup) {
  const ToolReading dsml = reading("deepseek_dsml");
  for (const std::string name : {"function_calls", "tool_calls"}) {
    expect_read(
        dsml,
        "Hm.\n\n<｜DSML｜" + name +
            ">\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"n\" string=\"true\">3</｜DSML｜parameter>\n"
            "<｜DSML｜parameter name=\"city\" "
            "string=\"false\">[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜" +
            name + ">",
        R"(Hm.|f({"n":"3","city":[1]}))");
  }
}

TEST(ToolCallReader, DeepSeeksTokens) {
  const ToolReading deepseek = reading("deepseek");
  expect_read(deepseek,
              "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"}\"}\n```"
              "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{}\n```"
              "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
              R"(Hm.|f({"a": "}"})|get_weather({}))");
  expect_read(
      deepseek,
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>"
      "get_weather<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      R"(f({"a":1})|get_weather({}))");
  for (const char* text : {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
                           "<｜tool▁calls▁begin｜>x", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>7",
                           "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```"})
    expect_read(deepseek, text, text);
}

TEST(ToolCallReader, KimisTokens) {
  const ToolReading kimi = reading("kimi_k2");
  const std::string text =
      "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}"
      "<|tool_call_end|><|tool_call_begin|>functions.get_weather:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
      "<|tool_calls_section_end|>";
  expect_read(kimi, text, R"(Hm.|f({"a": 1})|get_weather({}))");
  ToolCallReader reader(kimi);
  EXPECT_EQ(std::get<ToolCallHead>(reader.push(text).at(1)).id, "functions.f:0");  // as its template says it again
  for (const char* none :
       {"<|tool_calls_section_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.g:0<|tool_call_argument_begin|>{}"})
    expect_read(kimi, none, none);
}

TEST(ToolCallReader, GemmasNotation) {
  const ToolReading gemma = reading("gemma4");
  expect_read(
      gemma,
      "I see.<|tool_call>call:f{city:<|\"|>a \"b\" {c}, d:\n<|\"|>,n:3,on:true,list:[1,<|\"|>x<|\"|>,{k:null}],"
      "o:{deep:{er:-1.5e3}},word:some word}<tool_call|><|tool_call>call:get_weather{}<tool_call|>",
      R"(I see.|f({"city":"a \"b\" {c}, d:\n","n":3,"on":true,"list":[1,"x",{"k":null}],"o":{"deep":{"er":-1.5e3}},"word":"some word"})|get_weather({}))");
  expect_read(gemma, R"(<|tool_call>call:f{"city": "a\"}", n: 3}<tool_call|>ok)", R"(f({"city":"a\"}","n":3})|ok)");
  for (const char* text :
       {"<|tool_call>call:g{}<tool_call|>", "<|tool_call>", "<|tool_call>call:f", "<|tool_call>f{}"})
    expect_read(gemma, text, text);
}

TEST(ToolCallReader, CallsAsPythonWritesThem) {
  const ToolReading lfm = reading("lfm2");
  expect_read(lfm,
              "I see.<|tool_call_start|>[get_weather(city=\"a \\\"b\\\" (c), 'd'\\n\", n=-3, on=True, maybe=None,"
              " list=[1, 'x\\'', (2,), {\"k\": False, 'l': []},]), f()]<|tool_call_end|>Done.",
              R"(I see.|get_weather({"city":"a \"b\" (c), 'd'\n","n":-3,"on":true,"maybe":null,)"
              R"("list":[1,"x'",[2],{"k":false,"l":[]}]})|f({})|Done.)");
  expect_read(lfm, R"(<|tool_call_start|>[f(any=1.5e3, either=word, city='\\\x41\u00e4\d')]<|tool_call_end|>)",
              R"(f({"any":1.5e3,"either":"word","city":"\\\u0041\u00e4\\d"}))");
  expect_read(lfm, R"(<|tool_call_start|>[f("x", [1], on=False)]<|tool_call_end|>)",
              R"(f({"0":"x","1":[1],"on":false}))");
  expect_read(lfm, R"(<|tool_call_start|>[{"name": "f", "arguments": {"n": 1}}]<|tool_call_end|>ok)",
              R"(f({"n": 1})|ok)");
  for (const char* text : {"<|tool_call_start|>[g()]<|tool_call_end|>", "<|tool_call_start|>",
                           "<|tool_call_start|>[f", "<|tool_call_start|>[f]"}) {
    expect_read(lfm, text, text);
  }
}

TEST(ToolCallReader, ListsInTags) {
  expect_read(reading("granite"), R"(<|tool_call|>[{"name": "f", "arguments": {}}])", "f({})");
  expect_read(reading("nemotron"),
              R"(<TOOLCALL>[{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {}}]</TOOLCALL>)",
              R"(f({"a": 1})|f({}))");
  expect_read(reading("tool_calls"), "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_calls> Done.",
              "f({})|Done.");
}

// What an answer that must be a call has of one when it is cut off is no text.
TEST(ToolCallReader, AForcedCallIsNeverText) {
  ToolReading forced = reading("json");
  forced.forced = true;
  const std::string text = R"({"name": "f", "arguments": {"a": 1}})";
  for (size_t length = 0; length <= text.size(); ++length) {
    const std::string cut = read(forced, text.substr(0, length), 3);
    EXPECT_TRUE(cut.empty() || cut.starts_with("f(")) << cut;
  }
}

TEST(ToolCallReader, HostileTextEndsSomewhere) {
  for (const ToolFormat& format : tool_formats()) {
    for (const ToolFormat::Mark& mark : format.marks) {
      ToolCallReader reader(reading(format));
      const std::string marks(20'000, mark.text.front());
      size_t given = 0;
      const auto count = [&](const std::vector<AnswerPart>& parts) {
        for (const AnswerPart& part : parts) given += std::get<std::string>(part).size();
      };
      count(reader.push(marks));
      for (int i = 0; i < 2'000; ++i) count(reader.push(mark.text));
      count(reader.finish());
      EXPECT_EQ(given, marks.size() + 2'000 * mark.text.size()) << format.name;
    }
  }
  const std::string deep(200'000, '[');
  ToolCallReader nested(reading("hermes"));
  nested.push("<tool_call>{\"arguments\":" + deep);
  EXPECT_EQ(std::get<std::string>(nested.finish().at(0)).size(), deep.size() + 24);
  std::string endless = "{\"name\": \"";
  ToolCallReader named(reading("json"));
  named.push(endless);
  for (int i = 0; i < 50'000; ++i) named.push("aaaa");
  EXPECT_EQ(named.calls(), 0U);
}

}  // namespace
}  // namespace kvasir::testing
