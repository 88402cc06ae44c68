// What requests say of speculative decoding, and what replies tell of it. Its answers are the same.
#include <set>

#include "server/api/api_error.h"
#include "server/api/speculative_parse.h"
#include "test_server.h"

namespace kvasir::testing {
namespace {

class SpeculativeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    LlmOptions options = draft_options();
    options.draft = "auto";
    model_ = std::make_unique<LoadedModel>(options);
  }
  static void TearDownTestSuite() { model_.reset(); }

  static Json chat(const Json& more = {}) {
    Json out{{"messages", {{{"role", "user"}, {"content", "Tell me a story about a fox and a crow."}}}},
             {"max_tokens", 60},
             {"temperature", 0}};
    if (more.is_object()) out.update(more);
    return out;
  }
  Json answer(const Json& body) { return server_.post("/v1/chat/completions", body).json(); }
  static std::string text_of(const Json& reply) { return reply["choices"][0]["message"]["content"]; }

  static inline std::unique_ptr<LoadedModel> model_;
  TestServer server_{*model_, {}, {.model_name = "draft"}};
};

TEST_F(SpeculativeTest, APredictionChangesNoAnswerAndIsCounted) {
  const std::string expected = text_of(answer(chat({{"speculative", false}})));
  const Json right{{"prediction", {{"type", "content"}, {"content", expected}}}, {"explain", true}};
  const Json reply = answer(chat(right));
  EXPECT_EQ(text_of(reply), expected);
  const Json details = reply["usage"]["completion_tokens_details"];
  const int accepted = details["accepted_prediction_tokens"];
  EXPECT_GE(details["rejected_prediction_tokens"], 0);
  if (accepted > 0) {
    const Json told = reply["kvasir"]["speculation"];
    int sum = 0;
    for (const auto& [name, counts] : told.items()) sum += counts["accepted_tokens"].get<int>();
    EXPECT_EQ(sum, accepted) << reply;
  }
  const Json parts{{"prediction", {{"type", "content"}, {"content", {{{"type", "text"}, {"text", expected}}}}}}};
  EXPECT_EQ(text_of(answer(chat(parts))), expected);
  const std::string page = server_.ask("GET", "/metrics").body;
  for (const char* name : {"vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_draft_tokens_total",
                           "vllm:spec_decode_num_accepted_tokens_total", "kvasir:spec_decode_saved_seconds",
                           "kvasir:spec_decode_branch_tokens_total",
                           "kvasir:spec_decode_accepted_branch_tokens_total", "kvasir:tenant_draft_text_bytes"}) {
    EXPECT_NE(page.find(std::string("\n") + name + "{"), std::string::npos) << name;
  }
}

// A guess may bring an element that the array has: it is taken up to there.
TEST_F(SpeculativeTest, AnArrayOfDifferentElementsIsTheSameWithGuesses) {
  const Json schema{{"type", "array"},
                    {"items", {{"type", "string"}, {"pattern", "^(fox|crow|f|c| )$"}}},
                    {"uniqueItems", true},
                    {"minItems", 4}};
  Json asked = chat({{"guided_json", schema}});
  asked["speculative"] = false;
  const std::string expected = text_of(answer(asked));
  asked["speculative"] = true;
  asked["prediction"] = {{"type", "content"}, {"content", R"(["fox","fox","crow","crow","c","c","f","f"])"}};
  EXPECT_EQ(text_of(answer(asked)), expected);
  const Json list = Json::parse(expected);
  EXPECT_EQ(std::set<std::string>(list.begin(), list.end()).size(), list.size()) << expected;
}

TEST_F(SpeculativeTest, WhatIsNotThereIsRefusedByName) {
  const auto refusal = [&](const Json& more) {
    const Reply reply = server_.post("/v1/chat/completions", chat(more));
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"]["message"].get<std::string>();
  };
  EXPECT_NE(refusal({{"speculative", "model"}}).find("there is no drafter 'model' here"), std::string::npos);
  EXPECT_NE(refusal({{"speculative", 7}}).find("speculative must be false, true"), std::string::npos);
  EXPECT_NE(refusal({{"speculative", {{"tokens", 4}}}}).find("speculative.tokens must be"), std::string::npos);
  EXPECT_NE(refusal({{"speculative", {{"max_tokens", -1}}}}).find("speculative.max_tokens"), std::string::npos);
  EXPECT_NE(refusal({{"speculative", {{"tree", 5}}}}).find("speculative.tree"), std::string::npos);
  EXPECT_NE(refusal({{"prediction", {{"type", "image"}}}}).find("is not content"), std::string::npos);
  const Json message{{"role", "user"}, {"content", "Who went home?"}};
  const Json ngram{{"messages", {message}}, {"speculative", "ngram"}, {"stream", false}, {"max_tokens", 4}};
  EXPECT_EQ(server_.post("/v1/messages", ngram).status, 200);
  Json ollama = ngram;
  ollama.erase("max_tokens");
  ollama["options"] = {{"num_predict", 4}};
  EXPECT_EQ(server_.post("/api/chat", ollama).status, 200);
}

TEST(SpeculativeParseTest, ReadsEveryForm) {
  const auto read = [](const char* json) {
    const Json body = Json::parse(json);
    return read_speculative(Fields(body));
  };
  EXPECT_EQ(read("{}").most, 64);
  EXPECT_EQ(read(R"({"speculative": true})").most, 64);
  EXPECT_EQ(read(R"({"speculative": false})").most, 0);
  EXPECT_EQ(read(R"({"speculative": "off"})").most, 0);
  EXPECT_TRUE(read(R"({"speculative": "auto"})").drafters.empty());
  EXPECT_EQ(read(R"({"speculative": "ngram"})").drafters, std::vector<std::string>{"ngram"});
  EXPECT_EQ(read(R"({"speculative": ["ngram", "model"]})").drafters, (std::vector<std::string>{"ngram", "model"}));
  const SpeculativeParams all = read(R"({"speculative": {"drafter": ["suffix"], "max_tokens": 3}})");
  EXPECT_EQ(all.drafters, std::vector<std::string>{"suffix"});
  EXPECT_EQ(all.most, 3);
  EXPECT_EQ(all.branches, kMostBranches);
  EXPECT_EQ(read(R"({"speculative": {"tree": 1}})").branches, 1);
}

}  // namespace
}  // namespace kvasir::testing
