// Probabilities in the answers: right, aligned with the text, the same streamed and whole.
#include "server/api/logprobs_json.h"

#include <cmath>

#include "test_server.h"

namespace kvasir::testing {
namespace {

class LogprobsTest : public ServiceDraft {
 protected:
  static Json asked(std::int64_t tokens, int top) {
    Json body = story(tokens);
    body["logprobs"] = true;
    body["top_logprobs"] = top;
    return body;
  }
  static std::string text_of_bytes(const Json& content) {
    std::string out;
    for (const Json& token : content) {
      for (const Json& byte : token["bytes"]) out += static_cast<char>(byte.get<int>());
    }
    return out;
  }
};

TEST_F(LogprobsTest, ChatTellsEveryTokenAndTheLikeliest) {
  const Json choice = post("/v1/chat/completions", asked(12, 3)).json()["choices"][0];
  const Json& content = choice["logprobs"]["content"];
  ASSERT_EQ(content.size(), 12U);
  EXPECT_TRUE(choice["logprobs"]["refusal"].is_null());
  EXPECT_EQ(text_of_bytes(content), choice["message"]["content"]);
  for (const Json& token : content) {
    ASSERT_EQ(token["top_logprobs"].size(), 3U);
    // Greedy: the token is the likeliest one.
    EXPECT_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]);
    EXPECT_EQ(token["top_logprobs"][0]["token"], token["token"]);
    EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][2]["logprob"]);
    EXPECT_LE(token["logprob"].get<double>(), 0.0);
    double mass = 0;
    for (const Json& top : token["top_logprobs"]) mass += std::exp(top["logprob"].get<double>());
    EXPECT_LE(mass, 1.0001);
  }
  const Json none = post("/v1/chat/completions", asked(3, 0)).json()["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(none[0]["top_logprobs"], Json::array());
  EXPECT_EQ(none[0]["logprob"], content[0]["logprob"]);
}

TEST_F(LogprobsTest, StreamTellsTheSame) {
  Json body = asked(15, 2);
  body["temperature"] = 1.2;
  body["seed"] = 4;
  const Json whole = post("/v1/chat/completions", body).json()["choices"][0];
  body["stream"] = true;
  Json content = Json::array();
  for (const Json& event : events_of(post("/v1/chat/completions", body).body)) {
    const Json& choice = event["choices"][0];
    if (choice["logprobs"].is_null()) continue;
    EXPECT_EQ(text_of_bytes(choice["logprobs"]["content"]), choice["delta"]["content"]);
    for (const Json& token : choice["logprobs"]["content"]) content.push_back(token);
  }
  EXPECT_EQ(content, whole["logprobs"]["content"]);
}

TEST_F(LogprobsTest, AStopStringCutsTheTokensToo) {
  const Json whole = post("/v1/chat/completions", asked(30, 1)).json()["choices"][0];
  const std::string text = whole["message"]["content"];
  for (const size_t from : {5U, 11U, 20U}) {
    Json body = asked(30, 1);
    body["stop"] = text.substr(from, 6);
    const Json cut = post("/v1/chat/completions", body).json()["choices"][0];
    const std::string kept = cut["message"]["content"];
    const Json& content = cut["logprobs"]["content"];
    // The tokens reach at least to the cut, and without the last one they do not.
    EXPECT_GE(text_of_bytes(content).size(), kept.size());
    Json fewer = content;
    if (!fewer.empty()) fewer.erase(fewer.size() - 1);
    EXPECT_TRUE(kept.empty() || text_of_bytes(fewer).size() < kept.size());
    for (size_t i = 0; i < content.size(); ++i) EXPECT_EQ(content[i], whole["logprobs"]["content"][i]);
  }
}

TEST_F(LogprobsTest, CompletionsHaveTheirOwnShape) {
  Json body{{"prompt", "Once upon a time"}, {"max_tokens", 9}, {"temperature", 1}, {"seed", 3}, {"logprobs", 2}};
  const Json choice = post("/v1/completions", body).json()["choices"][0];
  const Json& logprobs = choice["logprobs"];
  std::string text;
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], text.size());  // plain letters: a byte each
    const std::string token = logprobs["tokens"][i];
    text += token;
    EXPECT_EQ(logprobs["top_logprobs"][i][token], logprobs["token_logprobs"][i]);
    EXPECT_GE(logprobs["top_logprobs"][i].size(), 2U);
    EXPECT_LE(logprobs["top_logprobs"][i].size(), 3U);
  }
  EXPECT_EQ(text, choice["text"]);
  body["stream"] = true;
  Json offsets = Json::array();
  for (const Json& event : events_of(post("/v1/completions", body).body)) {
    const Json& part = event["choices"][0]["logprobs"];
    for (const Json& offset : part.is_null() ? Json::array() : part["text_offset"]) offsets.push_back(offset);
  }
  EXPECT_EQ(offsets, logprobs["text_offset"]);
}

TEST_F(LogprobsTest, OllamaTellsThemToo) {
  Json body = story(1);
  body.erase("max_tokens");
  body["options"] = {{"num_predict", 4}, {"temperature", 0}};
  body["stream"] = false;
  body["logprobs"] = true;
  body["top_logprobs"] = 2;
  const Json reply = post("/api/chat", body).json();
  EXPECT_EQ(reply["logprobs"], post("/v1/chat/completions", asked(4, 2)).json()["choices"][0]["logprobs"]["content"]);
}

TEST(LogprobsJson, PiecesOfCharactersKeepTheirBytes) {
  const std::vector<AnswerToken> tokens{{{"\xe2\x80", -0.5F}, {{"\xe2\x80", -0.5F}, {"a", -1.0F}}, 0},
                                        {{"\x94", -INFINITY}, {}, 0}};
  const OrderedJson list = logprob_list(tokens);
  EXPECT_EQ(list[0]["bytes"], OrderedJson::array({0xe2, 0x80}));
  EXPECT_EQ(list[0]["token"], "\xef\xbf\xbd");
  EXPECT_EQ(list[1]["logprob"], -9999.0);
  const OrderedJson plain = completion_logprobs(tokens);
  EXPECT_EQ(plain["tokens"], OrderedJson::array({"bytes:\\xe2\\x80", "bytes:\\x94"}));
  EXPECT_EQ(plain["top_logprobs"][0].size(), 2U);
  EXPECT_EQ(plain["top_logprobs"][1].size(), 1U);
}

TEST_F(LogprobsTest, MinTokensHoldsStopsBack) {
  Json body = story(30);
  const std::string text = post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"];
  body["stop"] = text.substr(4, 3);
  const Json early = post("/v1/chat/completions", body).json();
  ASSERT_EQ(early["choices"][0]["finish_reason"], "stop");
  ASSERT_LT(early["usage"]["completion_tokens"], 10);
  body["min_tokens"] = 30;
  EXPECT_EQ(post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"], text);
  // Without ends: whatever the model would rather do.
  Json ended = story(60);
  ended["messages"][0]["content"] = "Say yes.";
  ended["min_tokens"] = 60;
  ended["temperature"] = 1;
  for (const int seed : {1, 2, 3}) {
    ended["seed"] = seed;
    EXPECT_EQ(post("/v1/chat/completions", ended).json()["usage"]["completion_tokens"], 60);
  }
}

}  // namespace
}  // namespace kvasir::testing
