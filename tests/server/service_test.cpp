// Every route without a socket: shapes, usage, explanations, errors.
#include "server/service.h"

#include "test_server.h"
#include "text/detokenizer.h"

namespace kvasir::testing {
namespace {

using ServiceTest = ServiceDraft;

TEST_F(ServiceTest, ChatHasOpenAisShape) {
  const Json reply = post("/v1/chat/completions", story(6)).json();
  EXPECT_EQ(reply["object"], "chat.completion");
  EXPECT_EQ(reply["model"], "draft");
  EXPECT_TRUE(reply["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_TRUE(reply["created"].is_number_integer());
  const Json& choice = reply["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_TRUE(choice["message"]["content"].is_string());
  EXPECT_TRUE(choice["message"].contains("refusal") && choice["message"]["refusal"].is_null());
  EXPECT_TRUE(choice.contains("logprobs") && choice["logprobs"].is_null());
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 6);
  EXPECT_EQ(reply["usage"]["total_tokens"], reply["usage"]["prompt_tokens"].get<int>() + 6);
  EXPECT_FALSE(reply.contains("kvasir"));
}

TEST_F(ServiceTest, StreamSaysTheSameInOrder) {
  Json body = story(12);
  const Json whole = post("/v1/chat/completions", body).json();
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const std::string stream = post("/v1/chat/completions", body).body;
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));
  const std::vector<Json> events = events_of(stream);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    EXPECT_TRUE(events[i].contains("usage") && events[i]["usage"].is_null());
    text += events[i]["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["delta"], Json::object());
  EXPECT_EQ(events.back()["choices"], Json::array());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 12);
}

TEST_F(ServiceTest, AnswersAreTheEnginesOwn) {
  Request request;
  request.prompt = model_->tokenizer.encode_document("The wolf and the seven", Tokenizer::Specials::kParse);
  request.max_tokens = 20;
  request.sampling.temperature = 0.9F;
  request.sampling.seed = 77;
  request.stop_tokens = model_->model->config().eos;
  LoadedModel alone(draft_options());
  std::vector<TokenId> tokens;
  alone.engine.submit(request, [&](const Update& update) {
    if (update.token >= 0) tokens.push_back(update.token);
  });
  alone.engine.run();
  const Json body{{"prompt", "The wolf and the seven"}, {"max_tokens", 20}, {"temperature", 0.9}, {"seed", 77}};
  EXPECT_EQ(post("/v1/completions", body).json()["choices"][0]["text"],
            detokenize(model_->tokenizer, tokens, Tokenizer::SkipSpecials::kSkip));
}

TEST_F(ServiceTest, StopStringsEndTheTextBeforeThem) {
  const std::string whole = post("/v1/chat/completions", story(30)).json()["choices"][0]["message"]["content"];
  ASSERT_GT(whole.size(), 30U);
  for (const size_t from : {5U, 11U, 20U}) {
    const std::string stop = whole.substr(from, 6);  // straddles tokens
    Json body = story(30);
    body["stop"] = stop;
    const Json choice = post("/v1/chat/completions", body).json()["choices"][0];
    EXPECT_EQ(choice["message"]["content"], whole.substr(0, whole.find(stop)));
    EXPECT_EQ(choice["finish_reason"], "stop");
    body["stream"] = true;
    std::string text;
    for (const Json& event : events_of(post("/v1/chat/completions", body).body))
      text += event["choices"][0]["delta"].value("content", "");
    EXPECT_EQ(text, whole.substr(0, whole.find(stop)));
  }
  EXPECT_TRUE(eventually([&] { return service_.in_flight() == 0; }));
}

TEST_F(ServiceTest, SeveralAnswersShareThePrompt) {
  Json body = story(8);
  body["temperature"] = 1;
  body["seed"] = 5;
  const EngineNumbers before = service_.engine_numbers();
  body["messages"][0]["content"] =
      "Tell me another story, about a miller, his donkey and the cat who went to sea in a sieve.";
  const Json single = post("/v1/chat/completions", body).json();
  body["n"] = 4;
  const Json four = post("/v1/chat/completions", body).json();
  ASSERT_EQ(four["choices"].size(), 4U);
  EXPECT_EQ(four["choices"][0]["message"]["content"], single["choices"][0]["message"]["content"]);
  EXPECT_NE(four["choices"][0]["message"]["content"], four["choices"][1]["message"]["content"]);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(four["choices"][i]["index"], i);
  EXPECT_EQ(four["usage"]["prompt_tokens"], single["usage"]["prompt_tokens"]);
  EXPECT_EQ(four["usage"]["completion_tokens"], 32);
  const EngineNumbers after = service_.engine_numbers();
  // The prompt was looked up once for the one answer, and once for the four.
  EXPECT_EQ(after.queried_tokens - before.queried_tokens, 2 * single["usage"]["prompt_tokens"].get<std::int64_t>());
}

TEST_F(ServiceTest, CompletionsEchoAndTakeTokens) {
  const std::vector<TokenId> tokens =
      model_->tokenizer.encode_document("Once upon a time", Tokenizer::Specials::kParse);
  const Json text =
      post("/v1/completions", {{"prompt", "Once upon a time"}, {"temperature", 0}, {"echo", true}}).json();
  const Json ids = post("/v1/completions", {{"prompt", tokens}, {"temperature", 0}, {"echo", true}}).json();
  EXPECT_EQ(text["choices"], ids["choices"]);
  EXPECT_TRUE(text["choices"][0]["text"].get<std::string>().starts_with("Once upon a time"));
  EXPECT_EQ(text["usage"]["completion_tokens"], 16);
  const Json many =
      post("/v1/completions", {{"prompt", {"The fox", "The crow"}}, {"n", 2}, {"max_tokens", 3}}).json();
  EXPECT_EQ(many["choices"].size(), 4U);
  Json streamed{{"prompt", "Once upon a time"}, {"temperature", 0}, {"echo", true}, {"stream", true}};
  std::string all;
  for (const Json& event : events_of(post("/v1/completions", streamed).body)) all += event["choices"][0]["text"];
  EXPECT_EQ(all, text["choices"][0]["text"]);
}

TEST_F(ServiceTest, ExplainsItsCache) {
  Json body = story(3);
  body["explain"] = true;
  body["messages"][0]["content"] =
      "There was once a miller who had three sons, a mill, a donkey and a cat; and when he died they divided it all.";
  const Json cold = post("/v1/chat/completions", body).json();
  EXPECT_EQ(cold["usage"]["prompt_tokens_details"]["cached_tokens"], cold["kvasir"]["reused_tokens"]);
  const Json warm = post("/v1/chat/completions", body).json();
  EXPECT_EQ(warm["kvasir"]["reason"], "whole_prompt");
  EXPECT_EQ(warm["kvasir"]["reused_tokens"], warm["kvasir"]["prompt_tokens"].get<int>() - 1);
  EXPECT_EQ(warm["kvasir"]["stopped_at_text"], "<|assistant|>");
  EXPECT_EQ(warm["choices"][0]["message"], cold["choices"][0]["message"]);
  EXPECT_GT(cold["usage"]["prompt_tokens_details"]["cache_write_tokens"], 0);
  EXPECT_EQ(warm["usage"]["prompt_tokens_details"]["cache_write_tokens"], 0);
  // The record of the request says the same, under either id.
  const Json record = ask("GET", "/kvasir/requests/" + warm["id"].get<std::string>()).json();
  EXPECT_EQ(record["cache"], warm["kvasir"]);
  EXPECT_EQ(record["finish_reasons"], Json::array({"length"}));
  EXPECT_EQ(ask("GET", "/kvasir/requests/req-test").json()["answer_id"], warm["id"]);
  EXPECT_EQ(ask("GET", "/kvasir/requests/none").status, 404);
}

TEST_F(ServiceTest, UserMistakesAre400WithAllFourKeys) {
  std::string long_text;
  for (int i = 0; i < 3000; ++i) long_text += " word";
  const std::vector<std::pair<std::string, Json>> table{
      {"/v1/chat/completions", {{"messages", "x"}}},
      {"/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", long_text}}}}}},
      {"/v1/completions", {{"prompt", long_text}}},
      {"/v1/completions", {{"prompt", {5, 999999}}}},
      {"/v1/completions", {{"prompt", "x"}, {"n", 5000}}},
      {"/tokenize", Json::object()},
      {"/detokenize", {{"tokens", "x"}}},
      {"/apply-template", Json::object()},
  };
  for (const auto& [path, body] : table) {
    const Reply reply = post(path, body);
    EXPECT_EQ(reply.status, 400) << path << body;
    for (const char* key : {"message", "type", "param", "code"})
      EXPECT_TRUE(reply.json()["error"].contains(key)) << reply.body;
  }
  EXPECT_EQ(post("/v1/completions", {{"prompt", long_text}}).json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(ask("POST", "/v1/chat/completions", "{").status, 400);
  EXPECT_EQ(ask("POST", "/v1/chat/completions", "").status, 400);
  EXPECT_EQ(ask("GET", "/nowhere").status, 404);
  EXPECT_EQ(ask("GET", "/v1/chat/completions").status, 405);
  EXPECT_EQ(ask("DELETE", "/v1/models").status, 405);
  EXPECT_EQ(service_.in_flight(), 0);
}

TEST_F(ServiceTest, TellsAboutTheModel) {
  EXPECT_EQ(ask("GET", "/health").json()["status"], "ok");
  EXPECT_EQ(ask("GET", "/v1/health").status, 200);
  EXPECT_EQ(ask("HEAD", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/v1/models").json()["data"][0]["id"], "draft");
  EXPECT_EQ(ask("GET", "/v1/models/draft").json()["object"], "model");
  EXPECT_EQ(ask("GET", "/v1/models/other").status, 404);
  EXPECT_TRUE(ask("GET", "/props").json()["chat_template"].is_string());
  EXPECT_NE(ask("GET", "/metrics").body.find("vllm:num_requests_running"), std::string::npos);
}

TEST_F(ServiceTest, TokensThereAndBack) {
  const Json tokens = post("/tokenize", {{"content", "Once upon é time"}}).json()["tokens"];
  EXPECT_EQ(post("/detokenize", {{"tokens", tokens}}).json()["content"], "Once upon é time");
  EXPECT_EQ(post("/apply-template", {{"messages", {{{"role", "user"}, {"content", "hi"}}}}}).json()["prompt"],
            "<|endoftext|><|user|>hi<|end|><|assistant|>");
}

TEST_F(ServiceTest, RefusesWhatDoesNotFitTheQueue) {
  LoadedModel own(draft_options());
  Service full(own,
               {.model_name = "full", .max_queued = 1 - own.engine.config().scheduler.max_sequences});  // one place
  Json body = story(100000);
  body["ignore_eos"] = true;
  const Response first = full.handle({"POST", "/v1/chat/completions", body.dump(), "a"});
  ASSERT_NE(first.work, nullptr);
  const Response second = full.handle({"POST", "/v1/chat/completions", body.dump(), "b"});
  EXPECT_EQ(second.reply.status, 429);
  const auto wait = [](const Response& refused) { return std::stoi(refused.reply.headers.at(0).second); };
  EXPECT_EQ(second.reply.headers.at(0).first, "retry-after");
  EXPECT_GE(wait(second), 1);
}

}  // namespace
}  // namespace kvasir::testing
