// Reasoning through a whole server: out in each API's own shape, in from the history, and what it does to the cache.
// The small shipped model does not think; here the token that ends its turns is called </think>, so that what it
// tells first is thought and what it goes on with is the answer.
#include "changed_model.h"
#include "server/api/anthropic_parse.h"
#include "server/api/openai_parse.h"
#include "server/api/reasoning_parse.h"
#include "server/api/responses_parse.h"

namespace kvasir::testing {
namespace {

const char* const kThinker =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{{ m.content }}{% else %}"
    "<|user|>{{ m.content }}{% endif %}</think>{% endfor %}{% if add_generation_prompt %}<|assistant|>"
    "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% endif %}{% endif %}"
    "{# message.reasoning_content is left out #}";

class ReasoningTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    changed_ = std::make_unique<ChangedModel>(kThinker, ChangedModel::Renamed{{"<|end|>", "</think>"}});
    changed_->no_end("3");
    model_ = std::make_unique<LoadedModel>(changed_->options());
  }
  static void TearDownTestSuite() {
    model_.reset();
    changed_.reset();
  }

  static Json asked() {
    return {{"messages", {{{"role", "user"}, {"content", "Tell me a story about a fox and a crow."}}}},
            {"max_tokens", 400},
            {"ignore_eos", true},
            {"temperature", 0}};
  }

  static inline std::unique_ptr<ChangedModel> changed_;
  static inline std::unique_ptr<LoadedModel> model_;
  Service service_{*model_, {.model_name = "thinker"}};
};

TEST_F(ReasoningTest, OpenAiHasItBesideTheContent) {
  Json body = asked();
  const Json whole = ask_service(service_, "/v1/chat/completions", body).json();
  const Json& message = whole["choices"][0]["message"];
  const std::string thoughts = message["reasoning_content"];
  const std::string content = message["content"];
  EXPECT_GT(thoughts.size(), 20U);
  EXPECT_GT(content.size(), 20U);
  EXPECT_EQ(message["reasoning"], thoughts);
  EXPECT_EQ(thoughts.find("</think>"), std::string::npos);
  EXPECT_EQ(content.find("</think>") == 0, false);
  const int counted = whole["usage"]["completion_tokens_details"]["reasoning_tokens"];
  EXPECT_GT(counted, 10);
  EXPECT_LT(counted, whole["usage"]["completion_tokens"]);
  // The same text, where nobody parts it: special tokens are not seen then.
  LoadedModel same(changed_->options());
  Service plain(same, {.model_name = "plain", .reasoning_format = "none"});
  const Json all = ask_service(plain, "/v1/chat/completions", body).json();
  EXPECT_FALSE(all["choices"][0]["message"].contains("reasoning_content"));
  EXPECT_EQ(all["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_TRUE(all["choices"][0]["message"]["content"].get<std::string>().starts_with(thoughts));

  body["stream"] = true;
  std::string streamed;
  std::string text;
  bool answered = false;
  for (const Json& event : events_of(ask_service(service_, "/v1/chat/completions", body).body)) {
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("reasoning_content")) {
      EXPECT_FALSE(answered);
      EXPECT_EQ(delta["reasoning"], delta["reasoning_content"]);
      streamed += delta["reasoning_content"];
    }
    text += delta.value("content", "");
    answered = !text.empty();
  }
  EXPECT_EQ(streamed, thoughts);
  EXPECT_EQ(text, content);
  body["stream"] = false;
  body["include_reasoning"] = false;
  const Json hidden = ask_service(service_, "/v1/chat/completions", body).json()["choices"][0]["message"];
  EXPECT_FALSE(hidden.contains("reasoning"));
  EXPECT_EQ(hidden["content"], content);
}

TEST_F(ReasoningTest, AnthropicHasABlockOfIt) {
  Json body = asked();
  body["thinking"] = {{"type", "enabled"}, {"budget_tokens", 1024}};
  const Json whole = ask_service(service_, "/v1/messages", body).json();
  ASSERT_EQ(whole["content"].size(), 2U) << whole;
  EXPECT_EQ(whole["content"][0]["type"], "thinking");
  EXPECT_TRUE(whole["content"][0]["signature"].is_string());
  EXPECT_EQ(whole["content"][1]["type"], "text");
  body["stream"] = true;
  std::string thoughts;
  std::vector<std::string> order;
  for (const Json& event : events_of(ask_service(service_, "/v1/messages", body).body)) {
    std::string name = event["type"];
    if (name == "content_block_delta") name = event["delta"]["type"];
    if (order.empty() || order.back() != name) order.push_back(name);
    if (name == "thinking_delta") thoughts += event["delta"]["thinking"];
  }
  EXPECT_EQ(thoughts, whole["content"][0]["thinking"]);
  EXPECT_EQ(order, (std::vector<std::string>{"message_start", "content_block_start", "thinking_delta",
                                             "signature_delta", "content_block_stop", "content_block_start",
                                             "text_delta", "content_block_stop", "message_delta", "message_stop"}));
  // Switched off, the template does not open it.
  body["stream"] = false;
  body["thinking"] = {{"type", "disabled"}};
  EXPECT_EQ(ask_service(service_, "/v1/messages", body).json()["content"][0]["type"], "text");
}

TEST_F(ReasoningTest, ResponsesHaveAnItemOfIt) {
  Json body{{"input", asked()["messages"]}, {"max_output_tokens", 400}, {"ignore_eos", true}, {"temperature", 0}};
  const Json whole = ask_service(service_, "/v1/responses", body).json();
  ASSERT_EQ(whole["output"].size(), 2U) << whole;
  EXPECT_EQ(whole["output"][0]["type"], "reasoning");
  EXPECT_EQ(whole["output"][0]["summary"], Json::array());
  EXPECT_EQ(whole["output"][0]["content"][0]["type"], "reasoning_text");
  EXPECT_EQ(whole["output"][1]["type"], "message");
  EXPECT_GT(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 10);
  body["stream"] = true;
  std::string thoughts;
  std::vector<std::string> order;
  for (const Json& event : events_of(ask_service(service_, "/v1/responses", body).body)) {
    if (order.empty() || order.back() != event["type"]) order.push_back(event["type"]);
    if (event["type"] == "response.reasoning_text.delta") thoughts += event["delta"];
    if (event["type"] == "response.reasoning_text.done") {
      EXPECT_EQ(event["text"], thoughts);
    }
  }
  EXPECT_EQ(thoughts, whole["output"][0]["content"][0]["text"]);
  EXPECT_EQ(order, (std::vector<std::string>{
                       "response.created", "response.in_progress", "response.output_item.added",
                       "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done",
                       "response.content_part.done", "response.output_item.done", "response.output_item.added",
                       "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                       "response.content_part.done", "response.output_item.done", "response.incomplete"}));
  // The conversation goes on from it.
  const Json next{{"input", "And then?"}, {"previous_response_id", whole["id"]}, {"max_output_tokens", 4}};
  EXPECT_EQ(ask_service(service_, "/v1/responses", next).status, 200);
}

// Clients that store nothing keep of an item what is "encrypted", and hand that back.
TEST_F(ReasoningTest, ResponsesSealIt) {
  Json body{{"input", asked()["messages"]}, {"max_output_tokens", 400}, {"ignore_eos", true}, {"temperature", 0}};
  EXPECT_FALSE(ask_service(service_, "/v1/responses", body).json()["output"][0].contains("encrypted_content"));
  body["include"] = {"reasoning.encrypted_content"};
  const Json item = ask_service(service_, "/v1/responses", body).json()["output"][0];
  const std::string thoughts = item["content"][0]["text"];
  ASSERT_FALSE(thoughts.empty());
  OrderedJson handed_back{{"type", "reasoning"}, {"summary", OrderedJson::array()}};
  handed_back["encrypted_content"] = item["encrypted_content"].get<std::string>();
  EXPECT_EQ(reasoning_item_text(handed_back), thoughts);
  for (const char* others : {"gAAAAABo", "kvasir:?", ""}) {
    handed_back["encrypted_content"] = others;
    EXPECT_EQ(reasoning_item_text(handed_back), "") << others;
  }
}

TEST_F(ReasoningTest, OllamaCallsItThinking) {
  Json body{{"messages", asked()["messages"]},
            {"stream", false},
            {"options", {{"num_predict", 400}, {"ignore_eos", true}, {"temperature", 0}}}};
  const Json whole = ask_service(service_, "/api/chat", body).json();
  EXPECT_GT(whole["message"]["thinking"].get<std::string>().size(), 20U);
  body["think"] = false;
  EXPECT_FALSE(ask_service(service_, "/api/chat", body).json()["message"].contains("thinking"));
  body.erase("think");
  body["stream"] = true;
  std::string thoughts;
  const std::string lines = ask_service(service_, "/api/chat", body).body;
  for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    const Json line = Json::parse(lines.substr(at, lines.find('\n', at) - at));
    thoughts += line["message"].value("thinking", "");
  }
  EXPECT_EQ(thoughts, whole["message"]["thinking"]);
  Json prompt{{"prompt", "Tell me a story."}, {"stream", false}, {"options", body["options"]}};
  EXPECT_TRUE(ask_service(service_, "/api/generate", prompt).json().contains("thinking"));
}

// The form holds what follows the thoughts.
TEST_F(ReasoningTest, AFormBeginsBehindIt) {
  Json body = asked();
  body["ignore_eos"] = false;
  body["max_tokens"] = 600;
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema",
                              {{"name", "n"},
                               {"schema",
                                {{"type", "object"},
                                 {"properties", {{"n", {{"enum", {1, 2}}}}}},
                                 {"required", {"n"}},
                                 {"additionalProperties", false}}}}}};
  const Json choice = ask_service(service_, "/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_GT(choice["message"]["reasoning_content"].get<std::string>().size(), 20U);
  const Json form = Json::parse(choice["message"]["content"].get<std::string>());
  EXPECT_TRUE(form["n"] == 1 || form["n"] == 2) << choice;
  // A call that must come, too.
  body.erase("response_format");
  body["tools"] = {
      {{"type", "function"},
       {"function",
        {{"name", "f"},
         {"parameters", {{"type", "object"}, {"properties", {{"n", {{"enum", {1, 2}}}}}}, {"required", {"n"}}}}}}}};
  body["tool_choice"] = "required";
  body["logit_bias"] = {{"3", 8}};  // with tools in the prompt it would think for long
  const Json call = ask_service(service_, "/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(call["finish_reason"], "tool_calls") << call;
  EXPECT_TRUE(call["message"]["content"].is_null());
  // Without thoughts the form holds from the first token on.
  body["chat_template_kwargs"] = {{"enable_thinking", false}};
  const Json at_once = ask_service(service_, "/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(at_once["finish_reason"], "tool_calls") << at_once;
}

// Of each API's history it reaches the template.
TEST_F(ReasoningTest, HistoryKeepsIt) {
  const OrderedJson expected = OrderedJson::parse(R"([{"role":"user","content":"U"},
      {"role":"assistant","content":"A","reasoning_content":"T"},{"role":"user","content":"V"}])");
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    Json body = Json::parse(R"({"messages":[{"role":"user","content":"U"},{"role":"assistant","content":"A"},
        {"role":"user","content":"V"}]})");
    body["messages"][1][name] = "T";
    EXPECT_EQ(parse_openai_chat(body).messages, expected) << name;
  }
  EXPECT_EQ(parse_anthropic_count(Json::parse(R"({"messages":[{"role":"user","content":"U"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"T","signature":"x"},
        {"type":"redacted_thinking","data":"?"},{"type":"text","text":"A"}]},{"role":"user","content":"V"}]})"))
                .messages,
            expected);
  const ResponsesRequest asked = parse_responses_count(Json::parse(R"({"input":[{"role":"user","content":"U"},
      {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"T"}]},
      {"role":"assistant","content":"A"},{"role":"user","content":"V"}]})"));
  EXPECT_EQ(messages_of("", asked.items), expected);
  const ResponsesRequest call = parse_responses_count(Json::parse(R"({"input":[{"role":"user","content":"U"},
      {"type":"reasoning","summary":[{"type":"summary_text","text":"T"}],"encrypted_content":"?"},
      {"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"1","output":"R"}]})"));
  EXPECT_EQ(messages_of("", call.items)[1]["reasoning_content"], "T");
}

TEST_F(ReasoningTest, TemplatesGetItWhereTheyLook) {
  const auto prompt_of = [](const std::string& source) {
    const ChangedModel changed(source);
    LoadedModel model(changed.options());
    Service service(model, {.model_name = "other"});
    const Json body = Json::parse(R"({"messages":[{"role":"user","content":"U"},
        {"role":"assistant","content":"A","reasoning_content":"T"},{"role":"user","content":"V"}]})");
    return ask_service(service, "/apply-template", body).json()["prompt"].get<std::string>();
  };
  const std::string loop = "{% for message in messages %}";
  EXPECT_EQ(prompt_of(loop + "{{ message.reasoning_content }}{{ message.content }}{% endfor %}<think>"),
            "UTAV<think>");
  EXPECT_EQ(prompt_of(loop + "{{ message.thinking }}{{ message.content }}{% endfor %}"), "UTAV");
  EXPECT_EQ(prompt_of(loop + "{% if message.content is string %}{{ message.content }}{% else %}{% for block in "
                             "message.content %}{% if block['type'] == 'thinking' %}[THINK]{{ block['thinking'] "
                             "}}[/THINK]{% else %}{{ block['text'] }}{% endif %}{% endfor %}{% endif %}{% endfor %}"),
            "U[THINK]T[/THINK]AV");
  EXPECT_EQ(prompt_of(loop + "{% for k in message %}{{ k }} {% endfor %}{% endfor %}"),
            "role content role content role content ");
}

// A template that drops what was thought costs the next turn no more than what stands behind it, and says so.
TEST_F(ReasoningTest, DroppedThoughtsAreExplained) {
  std::string question;
  for (int i = 0; i < 30; ++i) question += "The cat went home. ";
  Json body = asked();
  body["messages"][0]["content"] = question;
  body["max_tokens"] = 64;
  body["explain"] = true;
  const Json first = ask_service(service_, "/v1/chat/completions", body).json();
  body["messages"].push_back({{"role", "assistant"},
                              {"content", "It did, and then it slept."},
                              {"reasoning_content", first["choices"][0]["message"]["reasoning_content"]}});
  body["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
  const Json second = ask_service(service_, "/v1/chat/completions", body).json()["kvasir"];
  EXPECT_EQ(second["reason"], "diverged") << second;
  // All but "<think>\n" of the first prompt.
  EXPECT_GE(second["reused_tokens"].get<int>(), first["kvasir"]["prompt_tokens"].get<int>() - 6) << second;
  ASSERT_TRUE(second.contains("reasoning")) << second;
  EXPECT_EQ(second["reasoning"]["message"], 1);
  EXPECT_EQ(second["reasoning"]["in_prompt"], false);
  const int again = second["reasoning"]["recomputed_tokens"];
  EXPECT_GT(again, 0);
  EXPECT_LT(again, 20);  // the answer, and nothing before it
  EXPECT_NE(second["explanation"].get<std::string>().find("reasoning of message 1"), std::string::npos) << second;
}

// What the next turn will begin with stays, however much comes between; without the plan it is gone.
TEST_F(ReasoningTest, TheNextTurnIsPlannedFor) {
  const auto reused_by_next_turn = [&](const std::string& format) {
    LlmOptions options = changed_->options();
    options.context = 1024;
    options.kv_bytes = std::uint64_t{1} << 20;
    LoadedModel model(options);
    Service service(model, {.model_name = "small", .reasoning_format = format});
    std::string question;
    for (int i = 0; i < 30; ++i) question += "The cat went home. ";
    Json body = asked();
    body["messages"][0]["content"] = question;
    body["max_tokens"] = 32;
    body["explain"] = true;
    const int prompt = ask_service(service, "/v1/chat/completions", body).json()["kvasir"]["prompt_tokens"];
    for (int i = 0; i < 8; ++i) {
      std::string text = "Number " + std::to_string(i) + ". ";
      for (int j = 0; j < 60; ++j) text += "The dog ran on. ";
      ask_service(service, "/v1/completions", {{"prompt", text}, {"max_tokens", 100}, {"ignore_eos", true}});
    }
    body["messages"].push_back({{"role", "assistant"}, {"content", "It did."}});
    body["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
    const Json next = ask_service(service, "/v1/chat/completions", body).json()["kvasir"];
    return std::pair(next["reused_tokens"].get<int>(), prompt);
  };
  const auto [planned, prompt] = reused_by_next_turn("");
  EXPECT_GE(planned, prompt - 6);
  const auto [unplanned, same] = reused_by_next_turn("none");
  EXPECT_EQ(same, prompt);
  EXPECT_LT(unplanned, 16);
}

}  // namespace
}  // namespace kvasir::testing
