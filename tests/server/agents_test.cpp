// What clients and agents send today: understood, left unread because it can change nothing, or refused by name.
#include "changed_model.h"
#include "grammar/constraint.h"
#include "grammar/json_schema.h"
#include "server/answer/call_or_form.h"
#include "server/api/anthropic_parse.h"
#include "server/api/ollama_parse.h"
#include "server/api/openai_parse.h"
#include "server/api/responses_parse.h"

namespace kvasir::testing {
namespace {

class AgentsTest : public ServiceDraft {
 protected:
  static Json with(Json body, const Json& more) {
    body.update(more);
    return body;
  }
  static inline const Json kForm = Json::parse(
      R"({"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"],"additionalProperties":false})");
  static inline const Json kFunction = Json::parse(
      R"({"name":"f","parameters":{"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"]}})");
};

TEST_F(AgentsTest, WhatNobodyReadsIsRefusedByName) {
  const Json chat = story(1);
  const Json response{{"input", "x"}, {"max_output_tokens", 1}};
  const Json ollama{{"messages", chat["messages"]}, {"stream", false}, {"options", {{"num_predict", 1}}}};
  const std::vector<std::pair<const char*, Json>> asked{{"/v1/chat/completions", chat},
                                                        {"/v1/completions", {{"prompt", "x"}, {"max_tokens", 1}}},
                                                        {"/v1/responses", response},
                                                        {"/v1/messages", chat},
                                                        {"/api/chat", ollama}};
  for (const auto& [path, body] : asked) {
    const Reply refused = post(path, with(body, {{"use_magic", true}}));
    EXPECT_EQ(refused.status, 400) << path;
    EXPECT_NE(refused.body.find("use_magic is not known here"), std::string::npos) << path << refused.body;
    EXPECT_EQ(post(path, with(body, {{"use_magic", false}, {"more_magic", nullptr}})).status, 200) << path;
    EXPECT_EQ(post(path, with(body, {{"metadata", {{"a", "b"}}}, {"user", "u"}, {"service_tier", "auto"}})).status,
              200)
        << path;
  }
  Json options = ollama;
  options["options"]["mirostat"] = 2;
  EXPECT_NE(post("/api/chat", options).body.find("options.mirostat"), std::string::npos);
  options["options"] = {{"num_predict", 1}, {"num_ctx", 4096}, {"typical_p", 1.0}, {"mirostat", 0}};
  EXPECT_EQ(post("/api/chat", options).status, 200);
}

TEST_F(AgentsTest, ALastMessageGoesOn) {
  Json body = story(8);
  body["messages"].push_back({{"role", "assistant"}, {"content", "Once upon a time"}});
  const std::string fresh = post("/apply-template", body).json()["prompt"];
  EXPECT_TRUE(fresh.ends_with("Once upon a time<|end|><|assistant|>")) << fresh;
  body["continue_final_message"] = true;
  EXPECT_NE(post("/apply-template", with(body, {{"add_generation_prompt", true}})).status, 200);
  const std::string prompt = post("/apply-template", body).json()["prompt"];
  EXPECT_TRUE(prompt.ends_with("<|assistant|>Once upon a time")) << prompt;
  const Json answer = post("/v1/chat/completions", body).json();
  // The same as a completion of that text.
  Json raw{{"prompt", prompt.substr(std::string("<|endoftext|>").size())}, {"max_tokens", 8}, {"temperature", 0}};
  EXPECT_EQ(answer["choices"][0]["message"]["content"], post("/v1/completions", raw).json()["choices"][0]["text"]);
  // Anthropic's last message of the assistant's always does.
  Json message = story(8);
  message["messages"].push_back({{"role", "assistant"}, {"content", "Once upon a time"}});
  EXPECT_EQ(post("/v1/messages", message).json()["content"][0]["text"], answer["choices"][0]["message"]["content"]);
  // Bare: nothing is put behind the messages.
  body.erase("continue_final_message");
  body["add_generation_prompt"] = false;
  const std::string bare = post("/apply-template", body).json()["prompt"];
  EXPECT_TRUE(bare.ends_with("Once upon a time<|end|>")) << bare;
  Json user = story(1);
  user["continue_final_message"] = true;
  EXPECT_EQ(post("/v1/chat/completions", user).json()["error"]["param"], "continue_final_message");
}

TEST_F(AgentsTest, ToolsThatNobodyHereCanRunAreSkipped) {
  std::vector<std::string> notes;
  service_.on_note([&](const std::string&, const std::string& what) { notes.push_back(what); });
  Json body{{"input", "x"}, {"max_output_tokens", 60}, {"temperature", 0}};
  Json inner = kFunction;
  inner["type"] = "function";
  body["tools"] = {{{"type", "web_search"}},
                   {{"type", "custom"}, {"name", "apply_patch"}, {"format", {{"type", "grammar"}}}},
                   {{"type", "namespace"}, {"name", "box"}, {"tools", Json::array({inner})}}};
  body["tool_choice"] = "required";
  const Json reply = post("/v1/responses", body).json();
  ASSERT_EQ(reply["output"].size(), 1U) << reply;
  EXPECT_EQ(reply["output"][0]["name"], "f");
  EXPECT_EQ(reply["output"][0]["namespace"], "box");
  EXPECT_EQ(reply["tools"].size(), 3U);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("web_search custom"), std::string::npos) << notes[0];
  // Only those that are allowed.
  Json other = inner;
  other["name"] = "g";
  body["tools"] = {inner, other};
  body["tool_choice"] =
      Json::parse(R"({"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"}]})");
  EXPECT_EQ(post("/v1/responses", body).json()["output"][0]["name"], "g");
  // Anthropic's own, too.
  Json message = story(1);
  message["tools"] = {{{"type", "web_search_20250305"}, {"name", "web_search"}}};
  EXPECT_EQ(post("/v1/messages", message).status, 200);
}

// The form is for the answer; a call, if one begins, is free of it.
TEST_F(AgentsTest, ToolsBesideAForm) {
  Json body = story(60);
  body["tools"] = {{{"type", "function"}, {"function", kFunction}}};
  body["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", kForm}}}};
  const auto token_of = [&](const std::string& text) {
    return std::to_string(post("/tokenize", {{"content", text}}).json()["tokens"][0].get<int>());
  };
  const Json plain = post("/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(plain["finish_reason"], "stop") << plain;
  EXPECT_TRUE(Json::parse(plain["message"]["content"].get<std::string>()).contains("n"));
  // Nudged towards the tag, the model goes all the way into it.
  body["logit_bias"] = {{token_of("<tool_call>"), 100}};
  const Json called = post("/v1/chat/completions", body).json()["choices"][0];
  EXPECT_TRUE(called["message"]["content"].get<std::string>().starts_with("<tool_call>")) << called;
}

class SchemaForm : public TokenConstraint {
 public:
  explicit SchemaForm(grammar::GrammarConstraint inner) : inner_(std::move(inner)) {}
  void mask(std::span<float> logits) override { inner_.mask(logits); }
  void accept(TokenId token) override { inner_.accept(token); }
  bool ended() const override { return inner_.ended(); }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<SchemaForm>(inner_.apart()); }

 private:
  grammar::GrammarConstraint inner_;
};

// However a model spells the mark: with white space before it, and its end in one token with what follows.
TEST(CallOrForm, MarksAreMetByTheirBytes) {
  const std::vector<std::string> words{
      "", "{", "}", "\n", "<", "<tool", "_call>", "_call>\n", "\n<tool_call>", "x", "\n\n", "<function="};
  const auto vocabulary = std::make_shared<const grammar::Vocabulary>(words, std::vector<TokenId>{0});
  const auto marks = std::make_shared<const CallMarks>(
      vocabulary, std::vector<std::string>{"<tool_call>", "<function="}, std::vector<TokenId>{});
  const grammar::GrammarConstraint inner(
      grammar::compile_json_schema(R"({"type":"object","properties":{},"additionalProperties":false})"),
      std::make_shared<grammar::TokenMasker>(vocabulary));
  const SchemaForm form(inner);
  const auto allowed = [&](const TokenConstraint& at) {
    const auto copy = at.fork();
    std::vector<float> logits(words.size(), 1.0F);
    copy->mask(logits);
    std::string out;
    for (size_t i = 0; i < words.size(); ++i) {
      if (logits[i] == 1.0F) out += std::to_string(i) + " ";
    }
    return out;
  };
  const auto after = [&](const std::vector<TokenId>& tokens) {
    auto at = call_or_form(form, marks)->fork();
    for (const TokenId token : tokens) at->accept(token);
    return at;
  };
  EXPECT_EQ(allowed(*after({})), "1 3 5 8 11 ");  // nothing goes on behind a bare "<"
  EXPECT_EQ(allowed(*after({3})), "1 5 8 11 ");
  EXPECT_EQ(allowed(*after({5})), "6 7 ");
  const std::string all = "0 1 2 3 4 5 6 7 8 9 10 11 ";
  for (const std::vector<TokenId>& call : std::vector<std::vector<TokenId>>{{5, 6}, {5, 7}, {8}, {3, 8}, {11}})
    EXPECT_EQ(allowed(*after(call)), all);
  EXPECT_FALSE(after({5, 6})->ended());
  EXPECT_EQ(allowed(*after({3, 1, 2})), "0 ");
}

// Where calls are bare JSON, as with Llama 3, the form and the calls are one schema.
TEST_F(AgentsTest, ACallWithoutAMarkComesBesideAForm) {
  const ChangedModel changed(
      "{{ bos_token }}{% for tool in tools %}{{ tool | tojson }}<|python_tag|>{% endfor %}{% for m in messages %}"
      "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}");
  LoadedModel model(changed.options());
  Service service(model, {.model_name = "bare"});
  Json body = story(80);
  body["tools"] = {{{"type", "function"}, {"function", kFunction}}};
  const Json schema = Json::parse(R"({"type":"object","properties":{"z":{"$ref":"#/$defs/n"},"a":{"const":1}},
    "required":["z","a"],"additionalProperties":false,"$defs":{"n":{"enum":[1,2]}}})");
  body["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", schema}}}};
  body["temperature"] = 1;
  int calls = 0;
  int forms = 0;
  for (int seed = 0; seed < 40 && (calls == 0 || forms == 0); ++seed) {
    body["seed"] = seed;
    const Json choice = ask_service(service, "/v1/chat/completions", body).json()["choices"][0];
    if (choice["finish_reason"] == "length") continue;
    if (choice["finish_reason"] == "tool_calls") {
      EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "f");
      ++calls;
    } else {
      EXPECT_EQ(Json::parse(choice["message"]["content"].get<std::string>())["a"], 1) << choice;
      ++forms;
    }
  }
  EXPECT_GT(calls, 0);
  EXPECT_GT(forms, 0);
}

TEST_F(AgentsTest, TemplatesWithoutASystemRoleGetItFromTheUser) {
  const ChangedModel changed(
      "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
      "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}");
  LoadedModel model(changed.options());
  Service service(model, {.model_name = "no-system"});
  Json body = story(1);
  body["tools"] = {{{"type", "function"}, {"function", kFunction}}};
  body["messages"].insert(body["messages"].begin(), Json{{"role", "system"}, {"content", "Be kind."}});
  const std::string prompt = ask_service(service, "/apply-template", body).json()["prompt"];
  EXPECT_TRUE(prompt.starts_with("<|endoftext|><|user|>Be kind.\n\nYou may call functions")) << prompt;
  EXPECT_NE(prompt.find("</tool_call>\n\nTell me a story"), std::string::npos) << prompt;
  EXPECT_EQ(ask_service(service, "/v1/chat/completions", body).status, 200);
}

// Qwen 3.5's template wants one system message, and first; others leave later ones out without a word.
TEST_F(AgentsTest, SystemMessagesComeWhereTheTemplateTakesThem) {
  const std::string loop = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}";
  const std::string rest = "{% else %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}{% endfor %}<|assistant|>";
  const Json body = Json::parse(R"({"messages":[{"role":"system","content":"A"},{"role":"developer","content":"B"},
      {"role":"user","content":"U"},{"role":"assistant","content":"V"},{"role":"system","content":"C"},
      {"role":"user","content":"W"}]})");
  const auto prompt = [&](const std::string& source) {
    const ChangedModel changed(source);
    LoadedModel model(changed.options());
    Service service(model, {.model_name = "one-system"});
    return ask_service(service, "/apply-template", body).json()["prompt"].get<std::string>();
  };
  const std::string first =
      "<|system|>A\n\nB<|end|><|user|>U<|end|><|assistant|>V<|end|><|user|>C\n\nW<|end|><|assistant|>";
  EXPECT_EQ(prompt(loop + "{{ raise_exception('system comes first') }}" + rest), first);
  EXPECT_EQ(prompt(loop + rest), first);
  EXPECT_EQ(prompt("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"),
            "<|system|>A<|system|>B<|user|>U<|assistant|>V<|system|>C<|user|>W");
}

TEST_F(AgentsTest, AForcedCallThatIsCutLeavesNoText) {
  Json body = story(1);
  body["tools"] = {{{"type", "function"}, {"function", kFunction}}};
  body["tool_choice"] = "required";
  for (const int length : {1, 2, 4, 8, 12, 20}) {
    body["max_tokens"] = length;
    const Json choice = post("/v1/chat/completions", body).json()["choices"][0];
    const Json& content = choice["message"]["content"];
    EXPECT_TRUE(content.is_null() || content == "") << choice;
  }
}

TEST_F(AgentsTest, AnthropicsOutputHasAForm) {
  for (const Json& form : {Json{{"output_config", {{"format", {{"type", "json_schema"}, {"schema", kForm}}}}}},
                           Json{{"output_format", {{"type", "json_schema"}, {"schema", kForm}}}}}) {
    const Json reply = post("/v1/messages", with(story(60), form)).json();
    EXPECT_TRUE(Json::parse(reply["content"][0]["text"].get<std::string>()).contains("n")) << reply;
  }
  Json wrong = story(1);
  wrong["output_config"] = {{"format", {{"type", "xml"}}}};
  EXPECT_EQ(post("/v1/messages", wrong).status, 400);
}

TEST_F(AgentsTest, OllamaTellsOfItsModel) {
  const Json show = post("/api/show", {{"model", "draft"}}).json();
  EXPECT_EQ(show["details"]["family"], "llama");
  EXPECT_EQ(show["capabilities"], Json::array({"completion", "tools", "embedding"}));
  EXPECT_NE(show["template"].get<std::string>().find("<|assistant|>"), std::string::npos);
  const Json running = ask("GET", "/api/ps").json()["models"];
  ASSERT_EQ(running.size(), 1U);
  EXPECT_EQ(running[0]["name"], "draft");
  EXPECT_GT(running[0]["context_length"], 0);
  EXPECT_EQ(post("/api/generate", {{"model", "draft"}}).json()["done_reason"], "load");
  EXPECT_EQ(post("/api/generate", {{"model", "draft"}, {"prompt", ""}, {"keep_alive", 0}}).json()["done_reason"],
            "unload");
  const Json chat = post("/api/chat", {{"model", "draft"}, {"messages", Json::array()}}).json();
  EXPECT_EQ(chat["message"]["content"], "");
  EXPECT_EQ(chat["done"], true);
}

}  // namespace
}  // namespace kvasir::testing
