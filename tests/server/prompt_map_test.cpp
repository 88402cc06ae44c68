// Where messages and breakpoints are in a prompt, for templates that trim, move, repeat and drop.
#include "server/answer/prompt_map.h"

#include "../text/pieces_fixture.h"
#include "server/api/api_error.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

// A chat of {"messages": […], "tools": […]} with the template that a test gives.
class PromptMapTest : public ::testing::Test {
 protected:
  struct Prompt {
    std::vector<Piece> pieces;
    std::vector<TokenId> tokens;
    PromptMap map;
  };

  Prompt map(const std::string& source, const Json& body, const std::vector<CacheBreakpoint>& breakpoints) {
    const ChatTemplate chat(source, "test");
    const auto render = [&](const Json& read) {
      OrderedJson messages = OrderedJson::array();
      for (const Json& message : read["messages"]) {
        std::string text = message["content"].is_string() ? message["content"].get<std::string>() : "";
        if (message["content"].is_array()) {
          for (const Json& part : message["content"]) text += part["text"].get<std::string>();
        }
        messages.push_back({{"role", message["role"]}, {"content", text}});
      }
      RenderOptions options;
      if (read.contains("tools")) options.tools = OrderedJson(read["tools"]);
      return chat.render(messages, options);
    };
    Prompt out{render(body), {}, {}};
    out.tokens = encode_chat(tokenizer_, out.pieces);
    out.map =
        map_prompt(tokenizer_, {body, breakpoints, MapRequest::Messages::kFind}, {out.pieces, out.tokens}, render);
    for (const Breakpoint& one : out.map.breakpoints) {
      EXPECT_GT(one.tokens, 0);
      EXPECT_LE(one.tokens, static_cast<std::int64_t>(out.tokens.size()));
    }
    return out;
  }

  std::string first(const Prompt& prompt, std::int64_t tokens) const {
    return tokenizer_.decode(std::span(prompt.tokens).first(static_cast<size_t>(tokens)),
                             Tokenizer::SkipSpecials::kKeep);
  }
  std::string text(const Prompt& prompt, const MessageSpan& span) const {
    return first(prompt, span.end).substr(first(prompt, span.begin).size());
  }

  static CacheBreakpoint at(const std::string& pointer) { return {.text = Json::json_pointer(pointer)}; }

  static inline const std::string kPlain =
      "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|assistant|>";
  static inline const std::string kTrimming =
      "{% for m in messages %}<|user|>{{ m.content | trim }}<|end|>\n{% endfor %}<|assistant|>";

  Tokenizer tokenizer_ = Tokenizer::load(KVASIR_SOURCE_DIR "/models/tales-draft");
};

Json fox_and_crow() {
  return Json::parse(R"({"messages": [
      {"role": "system", "content": "You tell stories."},
      {"role": "user", "content": [{"type": "text", "text": "A fox met a crow. "}, {"type": "text", "text": "Go on!"}]},
      {"role": "assistant", "content": "The crow sang.\n"},
      {"role": "user", "content": "Then?"}]})");
}

TEST_F(PromptMapTest, BreakpointsAreWhereTheirTextsEnd) {
  const Prompt plain = map(kPlain, fox_and_crow(),
                           {at("/messages/0/content"), at("/messages/1/content/0/text"), at("/messages/2/content"),
                            at("/messages/3/content")});
  const std::vector<Breakpoint>& found = plain.map.breakpoints;
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(first(plain, found[0].tokens), "<|user|>You tell stories.");
  // The space after a sentence is the beginning of the next word's token: that token is not wholly before the mark.
  EXPECT_EQ(first(plain, found[1].tokens), "<|user|>You tell stories.<|end|><|user|>A fox met a crow.");
  EXPECT_TRUE(first(plain, found[2].tokens).ends_with("The crow sang.\n"));
  EXPECT_TRUE(first(plain, found[3].tokens).ends_with("<|user|>Then?"));
}

TEST_F(PromptMapTest, ATemplateThatTrimsLosesNothing) {
  const Prompt prompt = map(kTrimming, fox_and_crow(), {at("/messages/2/content"), at("/messages/3/content")});
  ASSERT_EQ(prompt.map.breakpoints.size(), 2U);
  EXPECT_TRUE(first(prompt, prompt.map.breakpoints[0].tokens).ends_with("The crow sang."));
  EXPECT_TRUE(first(prompt, prompt.map.breakpoints[1].tokens).ends_with("<|user|>Then?"));
}

TEST_F(PromptMapTest, MessagesAreWhereTheirTextsAre) {
  for (const std::string& source : {kPlain, kTrimming}) {
    const Prompt prompt = map(source, fox_and_crow(), {});
    const std::vector<MessageSpan>& spans = prompt.map.messages;
    ASSERT_EQ(spans.size(), 4U);
    EXPECT_EQ(text(prompt, spans[0]), "You tell stories.");
    EXPECT_EQ(text(prompt, spans[1]), "A fox met a crow. Go on!");
    EXPECT_EQ(spans[1].index, 1U);
    EXPECT_EQ(spans[2].role, "assistant");
    EXPECT_EQ(text(prompt, spans[3]), "Then?");
    const auto part_at = [&](std::int64_t token) { return message_at(spans, token); };
    EXPECT_EQ(part_at(0)["part"], "template");
    EXPECT_EQ(part_at(0)["index"], 0);
    EXPECT_EQ(part_at(spans[3].begin)["part"], "content");
    EXPECT_EQ(part_at(spans[3].begin)["index"], 3);
    EXPECT_EQ(part_at(spans[2].end)["index"], 3);
    EXPECT_TRUE(part_at(spans[3].end).is_null());
  }
}

// SentencePiece puts spaces into the prompt that are not in its text: after every special token, and before the
// first.
TEST_F(PromptMapTest, SpacesThatSentencePiecePutsInMoveNothing) {
  tokenizer_ = make_tokenizer(pieces_vocab());
  const std::string source = "{% for m in messages %}<s>[{{ m.role }}] {{ m.content }}</s>{% endfor %}";
  const Prompt prompt = map(source, fox_and_crow(), {at("/messages/0/content"), at("/messages/3/content")});
  ASSERT_NE(first(prompt, static_cast<std::int64_t>(prompt.tokens.size())), text_of(prompt.pieces));
  ASSERT_EQ(prompt.map.breakpoints.size(), 2U);
  EXPECT_EQ(first(prompt, prompt.map.breakpoints[0].tokens), "<s> [system] You tell stories.");
  EXPECT_TRUE(first(prompt, prompt.map.breakpoints[1].tokens).ends_with("] Then?"));
  ASSERT_EQ(prompt.map.messages.size(), 4U);
  EXPECT_EQ(text(prompt, prompt.map.messages[0]), "You tell stories.");
  EXPECT_EQ(text(prompt, prompt.map.messages[1]), " A fox met a crow. Go on!");  // "▁A" is one token
  EXPECT_EQ(text(prompt, prompt.map.messages[3]), " Then?");
}

TEST_F(PromptMapTest, TextsThatTheTemplateDropsOrMovesAreDroppedOrMoved) {
  const std::string last_first =
      "{{ messages[-1].content }}{% for m in messages[1:-1] %}<|user|>{{ m.content }}{{ m.content }}{% endfor %}";
  const Prompt prompt = map(last_first, fox_and_crow(), {at("/messages/0/content"), at("/messages/3/content")});
  ASSERT_EQ(prompt.map.breakpoints.size(), 1U);
  EXPECT_EQ(first(prompt, prompt.map.breakpoints[0].tokens), "Then?");
  ASSERT_EQ(prompt.map.messages.size(), 3U);
  EXPECT_EQ(prompt.map.messages.front().index, 3U);
  EXPECT_EQ(text(prompt, prompt.map.messages[1]), "A fox met a crow. Go on!");
}

TEST_F(PromptMapTest, ATemplateThatLooksAtTheTextsIsBelievedOnlyWhereNothingChanged) {
  const std::string looking =
      "{% for m in messages %}<|user|>{{ m.content }}{% if m.content == 'Then?' %} (now){% endif %}<|end|>{% endfor "
      "%}";
  const Prompt prompt = map(looking, fox_and_crow(), {at("/messages/0/content"), at("/messages/3/content")});
  ASSERT_EQ(prompt.map.breakpoints.size(), 2U);
  EXPECT_EQ(first(prompt, prompt.map.breakpoints[0].tokens), "<|user|>You tell stories.");
  EXPECT_TRUE(first(prompt, prompt.map.breakpoints[1].tokens).ends_with("Then?"));
}

TEST_F(PromptMapTest, MarksAreNotMistakenForTexts) {
  Json body = fox_and_crow();
  body["messages"][0]["content"] =
      "\uE5D0"
      "0"
      "\uE5D0 and \uE5D1"
      "1"
      "\uE5D1";
  const Prompt prompt = map(kPlain, body, {at("/messages/0/content"), at("/messages/3/content")});
  ASSERT_EQ(prompt.map.breakpoints.size(), 2U);
  EXPECT_EQ(first(prompt, prompt.map.breakpoints[0].tokens),
            "<|user|>" + body["messages"][0]["content"].get<std::string>());
}

TEST_F(PromptMapTest, ToolsEndWhereOthersWouldFollow) {
  const std::string source = "{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n<|end|>" + kPlain;
  Json body = fox_and_crow();
  body["tools"] = {{{"name", "rain"}}, {{"name", "wind"}}};
  const Prompt prompt = map(source, body, {{.tool = 0}, {.tool = 1}});
  ASSERT_EQ(prompt.map.breakpoints.size(), 2U);
  const std::string one = first(prompt, prompt.map.breakpoints[0].tokens);
  const std::string both = first(prompt, prompt.map.breakpoints[1].tokens);
  EXPECT_NE(one.find("rain\"}"), std::string::npos);
  EXPECT_EQ(one.find("wind"), std::string::npos);
  EXPECT_NE(both.find("wind\"}"), std::string::npos);
  EXPECT_EQ(both.find("stories"), std::string::npos);
  EXPECT_TRUE(map(kPlain, body, {{.tool = 1}}).map.breakpoints.empty());
  // Another tool of the same name would be refused, as it is by the APIs.
  body["tools"][0]["name"] = "x";
  const std::string unlike =
      "{% if tools | length > 2 and tools[2].name == tools[1].name %}{{ raise_exception('two') }}{% endif %}" +
      source;
  EXPECT_EQ(map(unlike, body, {{.tool = 1}}).map.breakpoints.size(), 1U);
}

TEST_F(PromptMapTest, ATemplateThatRefusesTheMarksHasNoBreakpoints) {
  const std::string strict =
      "{% if messages[0].content != 'You tell stories.' %}{{ raise_exception('no') }}{% endif %}" + kPlain;
  EXPECT_TRUE(map(strict, fox_and_crow(), {at("/messages/0/content")}).map.breakpoints.empty());
}

TEST_F(PromptMapTest, OfTwoMarksAtOnePlaceTheLongerCounts) {
  CacheBreakpoint hour = at("/messages/0/content");
  hour.keep = std::chrono::hours(1);
  const Prompt prompt = map(kPlain, fox_and_crow(), {at("/messages/0/content"), hour});
  ASSERT_EQ(prompt.map.breakpoints.size(), 1U);
  EXPECT_EQ(prompt.map.breakpoints[0].keep, std::chrono::hours(1));
}

std::string param_of(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const ApiError& error) {
    return error.reply().param;
  }
  return "none";
}

TEST(CacheBreakpoints, AnthropicsAreRead) {
  const Json body = Json::parse(R"({
      "cache_control": {"type": "ephemeral"},
      "tools": [{"name": "a"}, {"name": "b", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
      "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
      "messages": [{"role": "user", "content": [{"type": "text", "text": "y", "cache_control": null},
                                                {"type": "text", "text": "z"}]}]})");
  const std::vector<CacheBreakpoint> breakpoints = anthropic_cache_breakpoints(body);
  ASSERT_EQ(breakpoints.size(), 3U);
  EXPECT_EQ(breakpoints[0].tool, 1U);
  EXPECT_EQ(breakpoints[0].keep, std::chrono::hours(1));
  EXPECT_EQ(breakpoints[1].text.to_string(), "/system/0/text");
  EXPECT_EQ(breakpoints[1].keep, std::chrono::minutes(5));
  EXPECT_EQ(breakpoints[2].text.to_string(), "/messages/0/content/1/text");
  EXPECT_TRUE(
      anthropic_cache_breakpoints(Json::parse(R"({"messages": [{"role": "user", "content": "x"}]})")).empty());
}

TEST(CacheBreakpoints, AnthropicsMistakesAreNamed) {
  const auto with = [](const Json& control) {
    return param_of([&] {
      anthropic_cache_breakpoints(
          {{"messages", {{{"role", "user"}, {"content", {{{"text", "x"}, {"cache_control", control}}}}}}}});
    });
  };
  EXPECT_EQ(with({{"type", "ephemeral"}}), "none");
  EXPECT_EQ(with({{"type", "forever"}}), "messages[0].content[0].cache_control.type");
  EXPECT_EQ(with({{"type", "ephemeral"}, {"ttl", "2h"}}), "messages[0].content[0].cache_control.ttl");
  EXPECT_EQ(with("ephemeral"), "messages[0].content[0].cache_control");
  Json five{{"system", Json::array()}};
  for (int i = 0; i < 5; ++i)
    five["system"].push_back({{"type", "text"}, {"text", "x"}, {"cache_control", {{"type", "ephemeral"}}}});
  EXPECT_EQ(param_of([&] { anthropic_cache_breakpoints(five); }), "cache_control");
}

TEST(CacheBreakpoints, OpenAisAreRead) {
  Json body = Json::parse(R"({"messages": [{"role": "user", "content": []}]})");
  Json& parts = body["messages"][0]["content"];
  for (int i = 0; i < 6; ++i)
    parts.push_back({{"type", "text"}, {"text", "x"}, {"prompt_cache_breakpoint", {{"mode", "explicit"}}}});
  const std::vector<CacheBreakpoint> latest = openai_cache_breakpoints(body, "messages");
  ASSERT_EQ(latest.size(), 4U);
  EXPECT_EQ(latest[0].text.to_string(), "/messages/0/content/2/text");
  EXPECT_EQ(latest[0].keep, std::chrono::minutes(30));
  const Json plain = Json::parse(R"({"messages": [{"role": "user", "content": "x"}]})");
  EXPECT_TRUE(openai_cache_breakpoints(plain, "messages").empty());
  const auto with = [&](const char* name, const Json& value) {
    Json more = plain;
    more[name] = value;
    return openai_cache_breakpoints(more, "messages");
  };
  EXPECT_EQ(with("prompt_cache_options", Json::object()).size(), 1U);
  EXPECT_EQ(with("prompt_cache_options", {{"mode", "explicit"}}).size(), 0U);
  EXPECT_EQ(with("prompt_cache_retention", "24h").at(0).keep, std::chrono::hours(24));
  EXPECT_TRUE(with("prompt_cache_retention", "in_memory").empty());
  EXPECT_EQ(param_of([&] { with("prompt_cache_retention", "7d"); }), "prompt_cache_retention");
  EXPECT_EQ(param_of([&] { with("prompt_cache_options", {{"ttl", "5m"}}); }), "prompt_cache_options.ttl");
  parts[0]["prompt_cache_breakpoint"]["mode"] = "implicit";
  EXPECT_EQ(param_of([&] { openai_cache_breakpoints(body, "messages"); }),
            "messages[0].content[0].prompt_cache_breakpoint.mode");
}

}  // namespace
}  // namespace kvasir::testing
