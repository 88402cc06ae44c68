// What a model thought, called and answered, parted: the same whatever pieces the text comes in.
#include "server/answer/answer_reader.h"

#include <gtest/gtest.h>

namespace kvasir::testing {
namespace {

// (thoughts)text[f:{…}]text, of all parts put together.
std::string parted(const AnswerReading& how, const std::string& text, size_t piece) {
  AnswerReader reader(how);
  PartList all;
  const auto add = [&](const std::vector<AnswerPart>& parts) {
    for (const AnswerPart& part : parts) all.part(part);
  };
  for (size_t at = 0; at < text.size(); at += piece) add(reader.push(text.substr(at, piece)));
  add(reader.finish());
  std::string out;
  for (const AnswerPart& part : all.take()) {
    if (const auto* thoughts = std::get_if<ReasoningText>(&part)) {
      out += "(" + thoughts->text + ")";
    } else if (const auto* head = std::get_if<ToolCallHead>(&part)) {
      out += "[" + head->name + "]";
    } else if (const auto* arguments = std::get_if<ToolArguments>(&part)) {
      out += arguments->json;
    } else {
      out += std::get<std::string>(part);
    }
  }
  return out;
}

void expect_parted(const AnswerReading& how, const std::string& text, const std::string& expected) {
  for (size_t piece = 1; piece <= text.size(); ++piece) EXPECT_EQ(parted(how, text, piece), expected) << piece;
}

AnswerReading thinks(const char* format, AnswerBegins begins = AnswerBegins::kBefore) {
  AnswerReading out;
  out.reasoning = find_reasoning_format(format);
  out.begins = begins;
  return out;
}

AnswerReading with_tools(AnswerReading out, const char* format) {
  out.tools = ToolReading{find_tool_format(format),
                          std::make_shared<const std::vector<ReadableTool>>(std::vector<ReadableTool>{{"f"}}), true,
                          "call_", 24};
  return out;
}

TEST(AnswerReader, ThoughtsBetweenTags) {
  const AnswerReading think = thinks("think");
  expect_parted(think, "<think>\nHm.\n\nSo.\n</think>\n\nIt is < 3.", "(Hm.\n\nSo.)It is < 3.");
  expect_parted(think, " \n<think>a</think>b", "(a)b");
  expect_parted(think, "<think>\n\n</think>\n\nNo thoughts.", "No thoughts.");
  expect_parted(think, "<think>cut\n", "(cut)");
  expect_parted(think, "<think>a < b </thin", "(a < b </thin)");
  // Text that talks of tags is text; so is white space before it.
  for (const char* text : {"Write <think>x</think>.", "<thin", "<b>", "\n ", " </think> x", "  plain"})
    expect_parted(think, text, text);
}

TEST(AnswerReader, WhereThePromptHasOpenedThem) {
  const AnswerReading inside = thinks("think", AnswerBegins::kInside);
  expect_parted(inside, "Hm.\n</think>\n\nYes.", "(Hm.)Yes.");
  expect_parted(inside, "\n\nHm.", "(Hm.)");
  expect_parted(inside, "</think>Yes.", "Yes.");
  // A second opening tag is a thought like any other.
  expect_parted(inside, "<think>a</think>b", "(<think>a)b");
}

TEST(AnswerReader, OtherMarks) {
  expect_parted(thinks("mistral"), "[THINK]a[/THINK]b[THINK]c[/THINK] d", "(a)b(c)d");
  expect_parted(thinks("seed_oss"), "<seed:think>a</seed:think>\nb", "(a)b");
  expect_parted(thinks("gemma4"), "<|channel>thought\na\n<channel|>b", "(a)b");
  expect_parted(thinks("gemma4"), "<|channel>thought\n<channel|>b", "b");
  expect_parted(thinks("granite"), "<think>a</think>\n<response>b</response>", "(a)b");
  expect_parted(thinks("granite"), "<think>a</think>\nb", "(a)b");
}

TEST(AnswerReader, ThoughtsThenCalls) {
  expect_parted(
      with_tools(thinks("think"), "hermes"),
      "<think>\nf?\n</think>\n\nI call.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
      "(f?)I call.[f]{\"a\": 1}");
  // What is called in thoughts is a thought; but Kimi's tokens end them.
  expect_parted(with_tools(thinks("think"), "hermes"), "<think><tool_call>{\"name\": \"f\", \"arguments\": {}}",
                "(<tool_call>{\"name\": \"f\", \"arguments\": {}})");
  expect_parted(with_tools(thinks("think"), "kimi_k2"),
                "<think>a<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"
                "<|tool_call_end|><|tool_calls_section_end|>",
                "(a)[f]{}");
  expect_parted(with_tools(thinks("think", AnswerBegins::kInside), "glm4"), "a</think>\n<tool_call>f\n</tool_call>",
                "(a)[f]{}");
}

TEST(AnswerReader, Channels) {
  const AnswerReading harmony = thinks("harmony");
  expect_parted(harmony,
                "<|channel|>analysis<|message|>Hm <|x.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
                "(Hm <|x.)Yes.");
  expect_parted(harmony, "<|channel|>analysis<|message|>cut", "(cut)");
  expect_parted(harmony, "<|channel|>anal", "");
  expect_parted(harmony, "<|channel|>final<|message|>Yes.<|return|>", "Yes.");
  expect_parted(harmony,
                "<|channel|>commentary<|message|>I will.<|end|><|start|>assistant<|channel|>final<|message|>Done.",
                "I will.Done.");
  for (const char* text : {"No channel.", "{\"a\": 1}", "to be"}) expect_parted(harmony, text, text);
  expect_parted(thinks("harmony", AnswerBegins::kInside), "{\"a\": 1}", "{\"a\": 1}");
}

TEST(AnswerReader, CallsInChannels) {
  const AnswerReading harmony = with_tools(thinks("harmony"), "harmony");
  expect_parted(harmony,
                "<|channel|>analysis<|message|>f?<|end|><|start|>assistant<|channel|>commentary to=functions.f "
                "<|constrain|>json<|message|>{\"a\": 1}<|call|>",
                "(f?)[f]{\"a\": 1}");
  expect_parted(harmony, " to=functions.f<|channel|>commentary json<|message|>{}", "[f]{}");
  expect_parted(harmony, "<|channel|>commentary to=functions.g <|constrain|>json<|message|>{}<|call|>", "{}");
  AnswerReading one = harmony;
  one.tools->parallel = false;
  expect_parted(
      one, "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>x",
      "[f]{}");
  AnswerReader reader(harmony);
  reader.push("<|channel|>commentary to=functions.f<|message|>{");
  EXPECT_EQ(reader.calls(), 1U);
}

TEST(AnswerReader, KnowsWhenItIsThinking) {
  AnswerReader reader(thinks("think"));
  EXPECT_FALSE(reader.in_reasoning());
  reader.push("<think>");
  EXPECT_TRUE(reader.in_reasoning());
  reader.push("a");
  EXPECT_TRUE(reader.in_reasoning());
  reader.push("</think>");
  EXPECT_FALSE(reader.in_reasoning());
}

TEST(AnswerReader, FormatsAreFoundByTheTemplatesWords) {
  const auto name = [](const char* source) {
    const ReasoningFormat* format = reasoning_format_of(source);
    return format == nullptr ? std::string_view("none") : format->name;
  };
  EXPECT_EQ(name("{{ messages }}"), "none");
  EXPECT_EQ(name("<think>\n"), "think");
  EXPECT_EQ(name("[THINK]"), "mistral");
  EXPECT_EQ(name("<seed:think>"), "seed_oss");
  EXPECT_EQ(name("'<|channel>thought'"), "gemma4");
  EXPECT_EQ(name("<|channel|>analysis<|message|>"), "harmony");
  EXPECT_EQ(name("between <think></think> and <response></response>"), "granite");
}

}  // namespace
}  // namespace kvasir::testing
