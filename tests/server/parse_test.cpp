// Requests of the three APIs: what good ones mean, and which parameter a bad one is blamed on.
#include <gtest/gtest.h>

#include "server/api/anthropic_parse.h"
#include "server/api/api_error.h"
#include "server/api/ollama_parse.h"
#include "server/api/openai_parse.h"

namespace kvasir::testing {
namespace {

template <class Parse>
std::string blamed(Parse parse, const std::string& text) {
  try {
    parse(parse_json(text));
  } catch (const ApiError& error) {
    EXPECT_EQ(error.reply().status, 400) << text;
    EXPECT_FALSE(error.message().empty());
    return error.reply().param;
  }
  return "nobody";
}

// {"messages":[…],MORE}
std::string chat(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + std::string(more.empty() ? "" : ",") + more + "}";
}

struct Bad {
  const char* more;
  const char* param;
};

TEST(OpenAiChat, ReadsEverything) {
  const ChatRequest request = parse_openai_chat(parse_json(chat(
      R"("model":"any","temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":-7,"n":3,"stop":["a","b"],"max_tokens":9,
         "max_completion_tokens":8,"frequency_penalty":1,"presence_penalty":-1,"repetition_penalty":1.1,"logit_bias":{"5":-100,"6":1.5},
         "ignore_eos":true,"stop_token_ids":[1,2],"min_tokens":5,"priority":-3,"logprobs":true,"top_logprobs":4,"stream":true,"stream_options":{"include_usage":true},"explain":true,
         "response_format":{"type":"text"},"tools":[],"user":"me","store":null)")));
  const AnswerOptions& o = request.options;
  EXPECT_EQ(o.named.temperature, 0.5F);
  EXPECT_EQ(o.named.top_p, 0.9F);
  EXPECT_EQ(o.named.top_k, 40);
  EXPECT_EQ(o.named.min_p, 0.1F);
  EXPECT_EQ(o.seed, static_cast<std::uint64_t>(-7));
  EXPECT_EQ(o.n, 3);
  EXPECT_EQ(o.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.max_tokens, 8);
  EXPECT_EQ(o.sampling.frequency_penalty, 1.0F);
  EXPECT_EQ(o.sampling.presence_penalty, -1.0F);
  EXPECT_EQ(o.named.repetition_penalty, 1.1F);
  EXPECT_EQ(o.sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{5, -100.0F}, {6, 1.5F}}));
  EXPECT_EQ(o.stop_token_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(o.ignore_eos && o.stream && o.include_usage && o.explain);
  EXPECT_EQ(o.min_tokens, 5);
  EXPECT_EQ(o.priority, -3);
  EXPECT_EQ(o.logprobs, 4);
}

TEST(OpenAiChat, HasOpenAisDefaults) {
  const AnswerOptions o = parse_openai_chat(parse_json(chat(""))).options;
  EXPECT_EQ(o.sampling.temperature, 1.0F);
  EXPECT_EQ(o.sampling.top_p, 1.0F);
  EXPECT_TRUE(o.named.empty());
  EXPECT_EQ(o.n, 1);
  EXPECT_FALSE(o.max_tokens || o.seed || o.stream || o.include_usage);
}

TEST(OpenAiChat, BlamesTheParameter) {
  const std::vector<Bad> table{
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":-1)", "temperature"},
      {R"("temperature":[])", "temperature"},
      {R"("top_p":1.5)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1e12)", "top_k"},
      {R"("n":0)", "n"},
      {R"("n":129)", "n"},
      {R"("n":1.5)", "n"},
      {R"("stop":5)", "stop"},
      {R"("stop":[1])", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a","b","c","d","e"])", "stop"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-5)", "max_tokens"},
      {R"("max_tokens":1e300)", "max_tokens"},
      {R"("max_completion_tokens":"many")", "max_completion_tokens"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":1e30)", "seed"},
      {R"("frequency_penalty":3)", "frequency_penalty"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias.1"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":7)", "stream_options"},
      {R"("stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stop_token_ids":[-1])", "stop_token_ids"},
      {R"("explain":1)", "explain"},
      {R"("model":5)", "model"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":5,"max_tokens":4)", "min_tokens"},
      {R"("priority":"high")", "priority"},
      {R"("priority":1e10)", "priority"},
      {R"("logprobs":3)", "logprobs"},
      {R"("top_logprobs":3)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":-1)", "top_logprobs"},
      {R"("response_format":"json")", "response_format"},
      {R"("response_format":{})", "response_format.type"},
      {R"("response_format":{"type":"xml"})", "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"strict":1}})",
       "response_format.json_schema.strict"},
      {R"("response_format":{"type":"json_object"},"guided_json":{})", "guided_json"},
  };
  for (const Bad& bad : table) EXPECT_EQ(blamed(parse_openai_chat, chat(bad.more)), bad.param) << bad.more;
}

TEST(OpenAiChat, SaysWhatIsNotSupportedYet) {
  const std::vector<Bad> table{
      {R"("prompt_logprobs":1)", "prompt_logprobs"}, {R"("guided_regex":"a")", "guided_regex"},
      {R"("grammar":"root ::= x")", "grammar"},      {R"("functions":[{"name":"f"}])", "functions"},
      {R"("modalities":["audio"])", "modalities"},
  };
  for (const Bad& bad : table) EXPECT_EQ(blamed(parse_openai_chat, chat(bad.more)), bad.param) << bad.more;
  EXPECT_EQ(blamed(parse_openai_chat, chat(R"("modalities":["text"],"top_logprobs":0)")), "nobody");
}

TEST(OpenAiChat, FormsKeepTheOrderOfTheSchema) {
  const auto form = [](const std::string& more) { return parse_openai_chat(parse_json(chat(more))).options.format; };
  const std::string schema = R"({"type":"object","properties":{"z":{"type":"string"},"a":{"type":"null"}}})";
  for (const std::string& more :
       {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":)" + schema +
            "}}",
        "\"guided_json\":" + schema, "\"guided_json\":" + Json(schema).dump(), "\"json_schema\":" + schema}) {
    EXPECT_EQ(form(more).kind, ResponseFormat::Kind::kJsonSchema) << more;
    EXPECT_EQ(form(more).schema, schema) << more;
  }
  EXPECT_EQ(form(R"("response_format":{"type":"json_object"})").kind, ResponseFormat::Kind::kJsonObject);
  EXPECT_EQ(form(R"("response_format":{"type":"text"})").kind, ResponseFormat::Kind::kText);
  EXPECT_EQ(form(R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})").kind,
            ResponseFormat::Kind::kJsonObject);
}

TEST(OpenAiChat, MessagesAreChecked) {
  const std::vector<Bad> table{
      {"{}", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":{}})", "messages"},
      {R"({"messages":["hi"]})", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"king","content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":7}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})", "messages[0].tool_calls[0].function"},
      {"[]", ""},
      {"7", ""},
  };
  for (const Bad& bad : table) EXPECT_EQ(blamed(parse_openai_chat, bad.more), bad.param) << bad.more;
}

TEST(OpenAiChat, PutsPartsTogether) {
  const ChatRequest request = parse_openai_chat(parse_json(
      R"({"messages":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                      {"role":"assistant","content":null}]})"));
  EXPECT_EQ(request.messages, OrderedJson::parse(R"([{"role":"system","content":"d"},{"role":"user","content":"ab"},
                                                     {"role":"assistant","content":""}])"));
}

TEST(OpenAiCompletion, ReadsEveryKindOfPrompt) {
  const auto prompts = [](const char* prompt) {
    return parse_openai_completion(parse_json(std::string(R"({"prompt":)") + prompt + "}")).prompts;
  };
  EXPECT_EQ(prompts(R"("x")"), (std::vector<Prompt>{"x"}));
  EXPECT_EQ(prompts(R"(["x","y"])"), (std::vector<Prompt>{"x", "y"}));
  EXPECT_EQ(prompts("[1,2]"), (std::vector<Prompt>{std::vector<TokenId>{1, 2}}));
  EXPECT_EQ(prompts("[[1],[2,3]]"), (std::vector<Prompt>{std::vector<TokenId>{1}, std::vector<TokenId>{2, 3}}));
  EXPECT_EQ(parse_openai_completion(parse_json(R"({"prompt":"x"})")).options.max_tokens, 16);
}

TEST(OpenAiCompletion, BlamesTheParameter) {
  const std::vector<Bad> table{
      {"{}", "prompt"},
      {R"({"prompt":5})", "prompt"},
      {R"({"prompt":[]})", "prompt"},
      {R"({"prompt":[1,"x"]})", "prompt"},
      {R"({"prompt":["x",1]})", "prompt"},
      {R"({"prompt":[[1],"x",[-1]]})", "prompt"},
      {R"({"prompt":"x","suffix":"y"})", "suffix"},
      {R"({"prompt":"x","logprobs":6})", "logprobs"},
      {R"({"prompt":"x","logprobs":true})", "logprobs"},
      {R"({"prompt":"x","logprobs":0,"echo":true})", "echo"},
      {R"({"prompt":"x","min_tokens":17})", "min_tokens"},
      {R"({"prompt":"x","best_of":2})", "best_of"},
      {R"({"prompt":"x","echo":"yes"})", "echo"},
      {R"({"prompt":"x","max_tokens":0})", "max_tokens"},
  };
  for (const Bad& bad : table) EXPECT_EQ(blamed(parse_openai_completion, bad.more), bad.param) << bad.more;
  EXPECT_EQ(blamed(parse_openai_completion, R"({"prompt":"x","best_of":1,"suffix":""})"), "nobody");
  EXPECT_EQ(parse_openai_completion(parse_json(R"({"prompt":"x","logprobs":0})")).options.logprobs, 0);
}

TEST(Anthropic, ReadsSystemAndBlocks) {
  const ChatRequest request = parse_anthropic_messages(parse_json(
      R"({"model":"m","max_tokens":5,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],
          "messages":[{"role":"user","content":[{"type":"text","text":"u"}]}],"stop_sequences":["x"],"top_k":3,"stream":true})"));
  EXPECT_EQ(request.messages,
            OrderedJson::parse(R"([{"role":"system","content":"s"},{"role":"user","content":"u"}])"));
  EXPECT_EQ(request.options.max_tokens, 5);
  EXPECT_EQ(request.options.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(request.options.named.top_k, 3);
  EXPECT_TRUE(request.options.stream);
  EXPECT_EQ(parse_anthropic_count(parse_json(chat(""))).messages.size(), 1U);
}

TEST(Anthropic, BlamesTheParameter) {
  const std::vector<Bad> table{
      {"", "max_tokens"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":5,"system":7)", "system"},
      {R"("max_tokens":5,"tools":[{"name":"x"}])", "tools[0].input_schema"},
      {R"("max_tokens":5,"tool_choice":{"type":"any"})", "tool_choice"},
      {R"("max_tokens":5,"tool_choice":{"type":"all"})", "tool_choice.type"},
      {R"("max_tokens":5,"thinking":{"type":"sometimes"})", "thinking.type"},
      {R"("max_tokens":5,"stop_sequences":[""])", "stop_sequences"},
  };
  for (const Bad& bad : table) EXPECT_EQ(blamed(parse_anthropic_messages, chat(bad.more)), bad.param) << bad.more;
  EXPECT_EQ(blamed(parse_anthropic_messages, R"({"max_tokens":1,"messages":[{"role":"king","content":"x"}]})"),
            "messages[0].role");
}

TEST(Ollama, ReadsOptions) {
  const ChatRequest request = parse_ollama_chat(parse_json(chat(
      R"("options":{"num_predict":7,"temperature":0,"seed":3,"stop":["x"],"repeat_penalty":1.2,"num_ctx":4096},"keep_alive":"5m")")));
  EXPECT_EQ(request.options.max_tokens, 7);
  EXPECT_EQ(request.options.named.temperature, 0.0F);
  EXPECT_EQ(request.options.named.repetition_penalty, 1.2F);
  EXPECT_EQ(request.options.seed, 3U);
  EXPECT_TRUE(request.options.stream);
  EXPECT_FALSE(
      parse_ollama_chat(parse_json(chat(R"("stream":false,"options":{"num_predict":-1})"))).options.max_tokens);
  EXPECT_EQ(blamed(parse_ollama_chat, chat(R"("options":{"num_predict":0})")), "options.num_predict");
  EXPECT_EQ(blamed(parse_ollama_chat, chat(R"("format":"xml")")), "format");
  EXPECT_EQ(parse_ollama_chat(parse_json(chat(R"("format":"json")"))).options.format.kind,
            ResponseFormat::Kind::kJsonObject);
  EXPECT_EQ(parse_ollama_chat(parse_json(chat(R"("format":{"type":"null"})"))).options.format.schema,
            R"({"type":"null"})");
  EXPECT_EQ(parse_ollama_chat(parse_json(chat(R"("logprobs":true,"top_logprobs":2)"))).options.logprobs, 2);
  EXPECT_EQ(blamed(parse_ollama_generate, "{}"), "prompt");
  EXPECT_TRUE(
      std::holds_alternative<CompletionRequest>(parse_ollama_generate(parse_json(R"({"prompt":"x","raw":true})"))));
  EXPECT_TRUE(
      std::holds_alternative<ChatRequest>(parse_ollama_generate(parse_json(R"({"prompt":"x","system":"s"})"))));
}

}  // namespace
}  // namespace kvasir::testing
