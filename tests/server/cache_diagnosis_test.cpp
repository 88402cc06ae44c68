// Why an earlier answer's prompt could not be read from the cache, as Anthropic's and OpenAI's clients ask it.
#include "server/answer/prompt_print.h"
#include "test_keys.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

class CacheDiagnosisTest : public ServedDraft {
 protected:
  // Each test has its own words, so that none finds what another has cached.
  static std::string long_text(const std::string& word) {
    std::string out;
    for (int i = 0; i < 20; ++i) out += word + " went home. ";
    return out;
  }
  static Json messages(const std::string& word) {
    return {{"max_tokens", 2},
            {"temperature", 0},
            {"system", long_text(word + " and Ann")},
            {"messages", {{{"role", "user"}, {"content", long_text(word)}}}},
            {"diagnostics", {{"previous_message_id", nullptr}}}};
  }
  static void go_on(Json& body, const Json& reply) {
    body["messages"].push_back({{"role", "assistant"}, {"content", reply["content"]}});
    body["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
    body["diagnostics"]["previous_message_id"] = reply["id"];
  }
  static std::string type(const Json& reply) {
    return reply["diagnostics"].is_null() ? "none"
                                          : reply["diagnostics"]["cache_miss_reason"]["type"].get<std::string>();
  }

  TestServer server_{*model_, {}, {.model_name = "draft"}};
};

TEST_F(CacheDiagnosisTest, AnthropicIsToldWhatChanged) {
  Json body = messages("Anna");
  const Json first = server_.post("/v1/messages", body).json();
  EXPECT_TRUE(first["diagnostics"].is_null());
  go_on(body, first);
  EXPECT_EQ(type(server_.post("/v1/messages", body).json()), "none");
  const int prompt = first["usage"]["input_tokens"].get<int>() +
                     first["usage"]["cache_creation_input_tokens"].get<int>() +
                     first["usage"]["cache_read_input_tokens"].get<int>();

  Json changed = body;
  changed["system"] = "It is 9:42. " + body["system"].get<std::string>();
  const Json system = server_.post("/v1/messages", changed).json();
  EXPECT_EQ(type(system), "system_changed");
  const int missed = system["diagnostics"]["cache_miss_reason"]["cache_missed_input_tokens"];
  EXPECT_GT(missed, prompt - 32);
  EXPECT_LE(missed, prompt);

  changed = body;
  changed["messages"][0]["content"] = long_text("Anna") + "and slept.";
  const Json said = server_.post("/v1/messages", changed).json();
  EXPECT_EQ(type(said), "messages_changed");
  EXPECT_LT(said["diagnostics"]["cache_miss_reason"]["cache_missed_input_tokens"], prompt / 2);

  changed = body;
  changed["tools"] = {{{"name", "f"}, {"input_schema", {{"type", "object"}}}}};
  EXPECT_EQ(type(server_.post("/v1/messages", changed).json()), "tools_changed");

  changed = body;
  changed["cache_salt"] = "other";
  EXPECT_EQ(type(server_.post("/v1/messages", changed).json()), "unavailable");

  changed = body;
  changed["diagnostics"]["previous_message_id"] = "msg_0";
  EXPECT_EQ(type(server_.post("/v1/messages", changed).json()), "previous_message_not_found");
}

// What is cached under one KV policy is nothing under another.
TEST_F(CacheDiagnosisTest, AnotherPolicyIsAnotherModel) {
  LlmOptions options = draft_options();
  options.kv_allow = {"int8"};
  LoadedModel own(options);
  const TestServer server(own, {}, {.model_name = "two"});
  Json body = messages("Hans");
  go_on(body, server.post("/v1/messages", body).json());
  body["kv"] = "int8";
  const Json reply = server.post("/v1/messages", body).json();
  EXPECT_EQ(type(reply), "model_changed") << reply;
}

TEST_F(CacheDiagnosisTest, AStreamTellsItAtItsBeginning) {
  Json body = messages("Bert");
  go_on(body, server_.post("/v1/messages", body).json());
  body["messages"][0]["content"] = "Who went?";
  body["stream"] = true;
  const Json begin = events_of(server_.post("/v1/messages", body).body).at(0);
  EXPECT_EQ(begin["type"], "message_start");
  EXPECT_EQ(type(begin["message"]), "messages_changed");
}

TEST_F(CacheDiagnosisTest, OpenAiIsToldWhatChanged) {
  Json body{{"input", {{{"role", "user"}, {"content", long_text("Carl")}}}},
            {"instructions", long_text("Carl and Ann")},
            {"max_output_tokens", 2},
            {"temperature", 0}};
  const auto compared = [&](Json with, const Json& id) {
    with["prompt_cache_options"] = {{"comparison_response_id", id}};
    const Json out = server_.post("/v1/responses", with).json();
    EXPECT_EQ(out["prompt_cache_options"]["comparison_response_id"], id);
    return out["prompt_cache_diagnostics"];
  };
  const Json first = server_.post("/v1/responses", body).json();
  EXPECT_FALSE(first.contains("prompt_cache_diagnostics"));
  body["input"].push_back({{"role", "assistant"}, {"content", "Yes."}});
  body["input"].push_back({{"role", "user"}, {"content", "And then?"}});
  EXPECT_EQ(compared(body, first["id"]), (Json{{"type", "cache_hit"}}));
  EXPECT_EQ(compared(body, "resp_0"), (Json{{"type", "comparison_response_not_found"}}));
  const int prompt = first["usage"]["input_tokens"];

  Json changed = body;
  changed["input"][0]["content"] = long_text("Carl") + "or not.";
  Json found = compared(changed, first["id"]);
  EXPECT_EQ(found["type"], "cache_miss");
  EXPECT_EQ(found["reason"], "input_changed");
  EXPECT_EQ(found["cache_missed_tokens"].get<int>() + found["comparison_reusable_tokens"].get<int>(), prompt);
  EXPECT_GT(found["comparison_reusable_tokens"], prompt / 2);

  changed = body;
  changed["tools"] = {{{"type", "function"}, {"name", "f"}, {"parameters", {{"type", "object"}}}}};
  EXPECT_EQ(compared(changed, first["id"])["reason"], "tools_changed");
  changed = body;
  changed["prompt_cache_key"] = "other";
  found = compared(changed, first["id"]);
  EXPECT_EQ(found["reason"], "prompt_cache_key_changed");
  EXPECT_EQ(found["cache_missed_tokens"], prompt);
  // What the prompt does not show changes nothing.
  changed = body;
  changed["reasoning"] = {{"effort", "high"}};
  changed["text"] = {{"format", {{"type", "json_object"}}}};
  EXPECT_EQ(compared(changed, first["id"])["type"], "cache_hit");

  Json chat{{"messages", {{{"role", "user"}, {"content", long_text("Carla")}}}}, {"max_tokens", 2}};
  chat["prompt_cache_options"] = {{"prewarm", true}};
  EXPECT_EQ(server_.post("/v1/chat/completions", chat).json()["error"]["param"], "prompt_cache_options.prewarm");
  chat.erase("prompt_cache_options");
  const Json id = server_.post("/v1/chat/completions", chat).json()["id"];
  chat["messages"][0]["content"] = "Who?";
  chat["prompt_cache_options"] = {{"comparison_response_id", id}};
  EXPECT_EQ(server_.post("/v1/chat/completions", chat).json()["prompt_cache_diagnostics"]["reason"], "input_changed");
  chat["stream"] = true;
  EXPECT_EQ(events_of(server_.post("/v1/chat/completions", chat).body).back()["prompt_cache_diagnostics"]["reason"],
            "input_changed");
}

// The prompts agree, and the cache had to make room: nobody's words have a name for that, and it is no hit.
TEST_F(CacheDiagnosisTest, WhatWasEvictedIsNoHit) {
  LlmOptions options = draft_options();
  options.context = 1024;
  options.kv_bytes = std::uint64_t{1} << 20;
  LoadedModel own(options);
  const TestServer server(own, {}, {.model_name = "small"});
  Json body{{"input", long_text("Dora")}, {"max_output_tokens", 2}};
  const Json first = server.post("/v1/responses", body).json();
  for (int i = 0; i < 16; ++i)
    server.post("/v1/completions",
                {{"prompt", long_text("Eve " + std::to_string(i)) + long_text("Fay")}, {"max_tokens", 2}});
  body["prompt_cache_options"] = {{"mode", "explicit"}, {"comparison_response_id", first["id"]}};
  const Json again = server.post("/v1/responses", body).json();
  EXPECT_LT(again["usage"]["input_tokens_details"]["cached_tokens"], 16);
  EXPECT_EQ(again["prompt_cache_diagnostics"]["type"], "unavailable");
}

TEST_F(CacheDiagnosisTest, NobodyIsToldOfOthers) {
  const TestKey alice = new_key("alice");
  const TestKey bob = new_key("bob");
  LoadedModel own(draft_options());
  ServiceOptions keyed;
  keyed.keys = KeysFile{random_secret(), {alice.entry, bob.entry}};
  const TestServer server(own, {}, keyed);
  Json body = messages("Gerd");
  const Json first = server.ask("POST", "/v1/messages", body.dump(), alice.header()).json();
  go_on(body, first);
  body["messages"][0]["content"] = "Who?";
  EXPECT_EQ(type(server.ask("POST", "/v1/messages", body.dump(), alice.header()).json()), "messages_changed");
  EXPECT_EQ(type(server.ask("POST", "/v1/messages", body.dump(), bob.header()).json()), "previous_message_not_found");
}

TEST(PromptPrintsTest, KeepsTheNewestWithinItsBytesForEachTenant) {
  PromptPrint print;
  print.marks.resize(100);
  PromptPrints one({.prompts = 1, .bytes = size_t{1} << 20});
  one.add(1, "0", print);
  const size_t each = one.bytes(1);
  EXPECT_GE(each, 100 * sizeof(std::uint64_t));
  PromptPrints prints({.prompts = 10, .bytes = 3 * each + each / 2});
  for (int i = 0; i < 10; ++i) prints.add(1, std::to_string(i), print);
  EXPECT_LE(prints.bytes(1), 3 * each + each / 2);
  EXPECT_EQ(prints.find(1, "6"), nullptr);
  EXPECT_NE(prints.find(1, "7"), nullptr);
  EXPECT_NE(prints.find(1, "9"), nullptr);
  EXPECT_EQ(prints.find(2, "9"), nullptr);
  print.marks.resize(1000);
  prints.add(1, "large", print);
  EXPECT_EQ(prints.find(1, "large"), nullptr);
  EXPECT_NE(prints.find(1, "9"), nullptr);
}

}  // namespace
}  // namespace kvasir::testing
