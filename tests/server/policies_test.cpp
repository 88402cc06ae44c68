// KV policies over HTTP: a server that allows any, and one that allows none but its own.
#include <thread>

#include "answers.h"

namespace kvasir::testing {
namespace {

const std::vector<Json>& eight_policies() {
  static const std::vector<Json> policies{
      "f32",
      "f16",
      "int8",
      {{"k", "f32"}, {"v", "bf16"}, {"1", "int8/int4"}},
      {{"format", "f16"}, {"window", 48}},
      "bf16, window=32, sinks=4",
      {{"format", "int4"}, {"recent", "24:bf16"}, {"sinks", 4}},
      "recent=16:f32",
  };
  return policies;
}

Json asked(int i) {
  Json body = {
      {"messages", {{{"role", "user"}, {"content", "Tell me of fox " + std::to_string(i % 3) + " and a crow."}}}},
      {"max_tokens", 40},
      {"temperature", 1},
      {"seed", i},
      {"ignore_eos", true},
      {"logprobs", true},
      {"top_logprobs", 3}};
  body["kv"] = eight_policies()[static_cast<size_t>(i) % 8];
  return body;
}

LlmOptions any_policy() {
  LlmOptions options = draft_options();
  options.kv_allow = {"any"};
  return options;
}

TEST(Policies, SixteenRequestsOfEightPoliciesAtOnceAreEachAsAlone) {
  std::vector<Answer> alone;
  {
    LoadedModel model(any_policy());
    const TestServer server(model);
    for (int i = 0; i < 16; ++i) alone.push_back(answer_of(server.post("/v1/chat/completions", asked(i))));
  }
  EXPECT_EQ(alone[0].tokens, 40);
  EXPECT_FALSE(alone[0].probabilities == alone[8].probabilities);
  LoadedModel model(any_policy());
  TestServer server(model);
  std::vector<Answer> together(16);
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back(
        [&, i] { together[static_cast<size_t>(i)] = answer_of(server.post("/v1/chat/completions", asked(i))); });
  }
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(together[i], alone[i]) << i << " " << asked(static_cast<int>(i))["kv"];

  const std::string metrics = server.ask("GET", "/metrics").body;
  for (const char* policy :
       {"f32", "k=f32, v=bf16, 1:int8/int4", "int4, recent=24:bf16, sinks=4", "f16, recent=16:f32"}) {
    EXPECT_NE(metrics.find("kvasir:policy_kv_blocks{"), std::string::npos);
    EXPECT_NE(metrics.find("policy=\"" + std::string(policy) + "\""), std::string::npos) << metrics;
  }
}

TEST(Policies, EveryApiTakesOneAndExplainsAnother) {
  LoadedModel model(any_policy());
  const TestServer server(model);
  const Json messages = {{{"role", "user"}, {"content", "Tell me a long story about a fox and a crow, please."}}};
  const auto ask = [&](const std::string& path, Json body, const Json& kv) {
    body["kv"] = kv;
    return server.post(path, body);
  };
  const Json openai = {{"messages", messages}, {"max_tokens", 8}, {"explain", true}};
  EXPECT_EQ(ask("/v1/chat/completions", openai, "bf16").status, 200);
  const Reply other = ask("/v1/chat/completions", openai, "f32");
  EXPECT_NE(other.body.find("other_policy"), std::string::npos) << other.body;
  const Reply same = ask("/v1/chat/completions", openai, {{"format", "bf16"}});
  EXPECT_EQ(same.body.find("other_policy"), std::string::npos) << same.body;
  EXPECT_EQ(ask("/v1/messages", {{"messages", messages}, {"max_tokens", 8}}, "f32").status, 200);
  EXPECT_EQ(
      ask("/api/chat", {{"messages", messages}, {"stream", false}, {"options", {{"num_predict", 8}}}}, "f32").status,
      200);
  EXPECT_EQ(ask("/v1/responses", {{"input", "A fox"}, {"max_output_tokens", 8}}, "f32").status, 200);
  for (const std::string path : {"/v1/chat/completions", "/v1/messages", "/api/chat"}) {
    Json body{{"messages", messages}, {"stream", false}};
    if (path != "/api/chat") body["max_tokens"] = 8;
    const Reply refused = ask(path, body, "f17");
    EXPECT_EQ(refused.status, 400) << path;
    EXPECT_NE(refused.body.find("'f17' is not a KV format"), std::string::npos) << refused.body;
  }
  for (const Json& wrong : std::vector<Json>{12,
                                             {{"window", 2.5}},
                                             {{"window", "4, sinks=2"}},
                                             {{"depth", 1}},
                                             "sinks=1",
                                             "2:int8",
                                             {{"2-1", "int8"}},
                                             "@/etc/passwd"}) {
    EXPECT_EQ(ask("/v1/chat/completions", openai, wrong).status, 400) << wrong;
  }
}

TEST(Policies, WhatTheOperatorDoesNotAllowIsRefused) {
  LlmOptions options = draft_options();
  options.kv_allow = {"bf16, window=64"};
  LoadedModel model(options);
  const TestServer server(model);
  Json body = {{"prompt", "A fox"}, {"max_tokens", 4}, {"kv", "window=64, bf16"}};
  EXPECT_EQ(server.post("/v1/completions", body).status, 200);
  body["kv"] = "f16";
  EXPECT_EQ(server.post("/v1/completions", body).status, 200);
  body["kv"] = "f32";
  const Reply refused = server.post("/v1/completions", body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("bf16, window=64"), std::string::npos) << refused.body;
  EXPECT_EQ(server.ask("GET", "/props").json()["kv_cache"]["policies_allowed"].dump(),
            R"(["f16","bf16, window=64"])");
}

// It names no block, so that it is nobody's to allow, but has the operator's as its bound.
TEST(Policies, ARequestSaysHowManyStatesItLeaves) {
  LlmOptions options = draft_options();
  options.state_budget = 3;
  LoadedModel model(options);
  const TestServer server(model);
  Json body = {{"prompt", "A fox"}, {"max_tokens", 2}};
  for (const Json& kv :
       std::vector<Json>{{{"state_budget", 0}}, {{"state_budget", 3}, {"format", "f16"}}, "f16, state_budget=1"}) {
    body["kv"] = kv;
    const Reply reply = server.post("/v1/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
  }
  body["kv"] = {{"state_budget", 4}};
  const Reply refused = server.post("/v1/completions", body);
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("use a state_budget of 0 to 3"), std::string::npos) << refused.body;
}

// A policy that is too far off is told of and left, and the metrics say what was seen.
TEST(Policies, TheCanaryFallsBackAndSaysSo) {
  LlmOptions options = draft_options();
  options.kv = "int2";
  options.kv_room_for = {"int4", "int8", "f16", "f32"};
  LoadedModel model(options);
  ServiceOptions watched;
  watched.canary = {1.0, 0.01, 32};
  std::vector<Canary::Verdict>
      verdicts;  // outlives the server: the last answer may bring a verdict on int4 as it ends
  TestServer server(model, {}, watched);
  server.service().on_verdict([&](const Canary::Verdict& verdict) { verdicts.push_back(verdict); });
  const auto ask = [&](int seed) {
    Json body = asked(seed);
    body.erase("kv");
    return Json::parse(server.post("/v1/chat/completions", body).body);
  };
  const auto policy_of = [&](const Json& answer) {
    const std::string path = "/kvasir/requests/" + answer["id"].get<std::string>();
    return Json::parse(server.ask("GET", path).body).dump();
  };
  EXPECT_NE(policy_of(ask(1)).find("int2"), std::string::npos);
  EXPECT_TRUE(eventually([&] {
    return server.ask("GET", "/metrics").body.find("policy=\"int2\",by=\"int4\"} 1") != std::string::npos;
  }));
  const std::string metrics = server.ask("GET", "/metrics").body;
  EXPECT_NE(metrics.find("kvasir:canary_kl{"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("kvasir:canary_top1_agreement{"), std::string::npos);
  ASSERT_EQ(verdicts.size(), 1U);  // heard before the metrics were asked for
  EXPECT_EQ(verdicts[0].replaced_by, "int4");
  EXPECT_NE(policy_of(ask(2)).find("int4"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::testing
