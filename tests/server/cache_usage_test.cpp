// What replies tell of the cache: usage with breakpoints, and explanations that name the message.
#include "test_server.h"

namespace kvasir::testing {
namespace {

class CacheUsageTest : public ServedDraft {
 protected:
  // Each test has its own words, so that none finds what another has cached.
  static std::string long_text(const std::string& word) {
    std::string out;
    for (int i = 0; i < 40; ++i) out += word + " went home. ";
    return out;
  }
  static int total(const Json& usage) {
    return usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>() +
           usage["cache_creation_input_tokens"].get<int>();
  }

  TestServer server_{*model_, {}, {.model_name = "draft"}};
};

TEST_F(CacheUsageTest, AnthropicTellsWhatWasWrittenForHowLong) {
  const Json hour{{"type", "ephemeral"}, {"ttl", "1h"}};
  Json body{{"max_tokens", 2},
            {"system", {{{"type", "text"}, {"text", long_text("Anna")}, {"cache_control", hour}}}},
            {"messages", {{{"role", "user"}, {"content", long_text("Bert")}}}},
            {"cache_control", {{"type", "ephemeral"}}}};
  const int prompt = server_.post("/v1/messages/count_tokens", body).json()["input_tokens"];
  const Json cold = server_.post("/v1/messages", body).json()["usage"];
  EXPECT_EQ(total(cold), prompt);
  EXPECT_EQ(cold["cache_read_input_tokens"], 0);
  const int in_hours = cold["cache_creation"]["ephemeral_1h_input_tokens"];
  const int in_minutes = cold["cache_creation"]["ephemeral_5m_input_tokens"];
  EXPECT_GE(in_hours, 16);
  EXPECT_GE(in_minutes, 16);
  EXPECT_EQ(in_hours + in_minutes, cold["cache_creation_input_tokens"]);
  const Json warm = server_.post("/v1/messages", body).json()["usage"];
  EXPECT_EQ(total(warm), prompt);
  EXPECT_GE(warm["cache_read_input_tokens"], cold["cache_creation_input_tokens"]);
  EXPECT_EQ(warm["cache_creation_input_tokens"], 0);
  EXPECT_EQ(warm["cache_creation"]["ephemeral_1h_input_tokens"], 0);
}

TEST_F(CacheUsageTest, AMarkedPrefixIsPinnedAndTheRecordSaysSo) {
  const Json five_minutes{{"type", "ephemeral"}};
  const Json body{{"max_tokens", 4},
                  {"system", {{{"type", "text"}, {"text", long_text("Fred")}, {"cache_control", five_minutes}}}},
                  {"messages", {{{"role", "user"}, {"content", "Who went home?"}}}}};
  const Json message = server_.post("/v1/messages", body).json();
  const Json record = server_.ask("GET", "/kvasir/requests/" + message["id"].get<std::string>()).json();
  const int prompt = record["prompt_tokens"];
  const int pinned = record["tasks"][0]["pinned_tokens"];
  EXPECT_GT(pinned, prompt / 2) << record;
  EXPECT_LT(pinned, prompt);
  const std::string page = server_.ask("GET", "/metrics").body;
  const size_t at = page.find("\nkvasir:kv_pinned_blocks{");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stoi(page.substr(page.find("} ", at) + 2)), pinned / 16);
}

TEST_F(CacheUsageTest, ExplanationsNameTheMessageThatDiffers) {
  Json body{{"max_tokens", 2},
            {"explain", true},
            {"messages",
             {{{"role", "system"}, {"content", long_text("Carl")}},
              {{"role", "user"}, {"content", long_text("Dora") + long_text("Emma")}},
              {{"role", "user"}, {"content", "Who was it?"}}}}};
  const auto explained = [&] { return server_.post("/v1/chat/completions", body).json()["kvasir"]; };
  EXPECT_LT(explained()["reused_tokens"], 16);
  const Json again = explained();
  EXPECT_EQ(again["reused_by_tier"]["device"], again["reused_tokens"]);
  body["messages"][1]["content"] = long_text("Dora") + "Here it ends. " + long_text("Emma");
  const Json other = explained();
  EXPECT_EQ(other["reason"], "diverged") << other;
  EXPECT_TRUE(other["stopped_at_text"].get<std::string>().starts_with(" H")) << other;
  EXPECT_EQ(other["message"], Json::parse(R"({"index": 1, "role": "user", "part": "content"})"));
}

TEST_F(CacheUsageTest, EveryApiExplainsByHeaderToo) {
  const auto ask = [&](const std::string& path, const Json& body) {
    return server_.ask("POST", path, body.dump(), "x-kvasir-explain: 1\r\n").json();
  };
  Json chat = story(2);
  EXPECT_EQ(ask("/v1/chat/completions", chat)["kvasir"]["reused_by_tier"].size(), 1U);
  const Json message = ask("/v1/messages", chat)["kvasir"];
  EXPECT_EQ(message["reason"], "whole_prompt");
  EXPECT_TRUE(ask("/v1/completions", {{"prompt", "Once"}, {"max_tokens", 1}})["kvasir"]["message"].is_null());
  EXPECT_TRUE(ask("/api/chat", {{"messages", chat["messages"]}, {"stream", false}}).contains("kvasir"));
  EXPECT_TRUE(ask("/api/generate", {{"prompt", "Once"}, {"stream", false}}).contains("kvasir"));
  const Json first =
      ask("/v1/responses", {{"input", "Emil went home."}, {"max_output_tokens", 40}, {"ignore_eos", true}});
  EXPECT_TRUE(first.contains("kvasir"));
  const Json kept = server_.ask("GET", "/v1/responses/" + first["id"].get<std::string>()).json();
  EXPECT_FALSE(kept.contains("kvasir"));
  const Json more{{"input", long_text("Fritz")}, {"previous_response_id", first["id"]}, {"max_output_tokens", 2}};
  const Json next = ask("/v1/responses", more)["kvasir"];
  EXPECT_EQ(next["message"]["index"], 1) << next;  // what was answered, in the blocks that were not yet full
  EXPECT_EQ(next["message"]["role"], "assistant");
  const Json record = server_.ask("GET", "/kvasir/requests/" + first["id"].get<std::string>()).json();
  EXPECT_EQ(record["cache"], first["kvasir"]);
  ASSERT_EQ(record["tasks"].size(), 1U);
  const Json& task = record["tasks"][0];
  EXPECT_EQ(task["computed_tokens"], record["computed_tokens"]);
  EXPECT_EQ(task["pauses"], Json::array());
  ASSERT_GE(task["chunks"].size(), 1U) << record;
  EXPECT_GE(task["chunks"][0]["tokens"], 1);
  EXPECT_GE(task["queue_seconds"], 0);
  Json quiet = server_.ask("POST", "/v1/messages", chat.dump(), "x-kvasir-explain: 0\r\n").json();
  EXPECT_FALSE(quiet.contains("kvasir"));
}

TEST_F(CacheUsageTest, SlotsListWhatRuns) {
  EXPECT_EQ(server_.ask("GET", "/slots").json(), Json::array());
  Json body = story(1500);
  body["stream"] = true;
  body["ignore_eos"] = true;
  body["n"] = 2;
  const std::string text = body.dump();
  Client client(server_.port());
  client.send("POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nx-request-id: long-one\r\ncontent-length: " +
              std::to_string(text.size()) + "\r\n\r\n" + text);
  // The engine may be at work on an answer a moment before the server has noted whose it is.
  const auto is_known = [](const Json& slot) { return slot["choice"].is_number() && slot["answer_tokens"] > 0; };
  Json slots;
  ASSERT_TRUE(eventually([&] {
    slots = server_.ask("GET", "/slots").json();
    return slots.size() == 2 && std::ranges::all_of(slots, is_known);
  })) << slots;
  EXPECT_EQ(slots[0]["request_id"], "long-one");
  EXPECT_EQ(slots[0]["choice"].get<int>() + slots[1]["choice"].get<int>(), 1);
  EXPECT_NE(slots[0]["id_task"], slots[1]["id_task"]);
  EXPECT_EQ(slots[0]["is_processing"], true);
  EXPECT_EQ(slots[0]["state"], "running");
  EXPECT_GE(slots[0]["held_blocks"], 1);
  EXPECT_GE(slots[0]["cached_tokens"], slots[0]["prompt_tokens"]);
  client.close();
  EXPECT_TRUE(eventually([&] { return server_.ask("GET", "/slots").json().empty(); }));
}

TEST_F(CacheUsageTest, AStreamExplainsInItsLastChunk) {
  Json body = story(3);
  body["stream"] = true;
  body["explain"] = true;
  EXPECT_TRUE(events_of(server_.post("/v1/chat/completions", body).body).back().contains("kvasir"));
  Json response{{"input", "x"}, {"max_output_tokens", 3}, {"stream", true}, {"explain", true}};
  EXPECT_TRUE(events_of(server_.post("/v1/responses", response).body).back()["response"].contains("kvasir"));
}

TEST_F(CacheUsageTest, ResponsesTakeBreakpoints) {
  Json body = Json::parse(R"({"max_output_tokens": 2, "prompt_cache_options": {"mode": "explicit"}, "input": [
      {"role": "user", "content": [{"type": "input_text", "text": "Hello.",
                                    "prompt_cache_breakpoint": {"mode": "explicit"}}]}]})");
  const Json response = server_.post("/v1/responses", body).json();
  EXPECT_EQ(response["prompt_cache_options"]["mode"], "explicit");
  EXPECT_EQ(response["prompt_cache_options"]["ttl"], "30m");
  body["input"][0]["content"][0]["prompt_cache_breakpoint"]["mode"] = "no";
  const Reply wrong = server_.post("/v1/responses", body);
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.json()["error"]["param"], "input[0].content[0].prompt_cache_breakpoint.mode");
}

}  // namespace
}  // namespace kvasir::testing
