// Vectors over HTTP: OpenAI's and Ollama's routes, of an encoder and of a decoder; what is refused; and that nobody's
// vector depends on who else asks.
#include <gtest/gtest.h>

#include <cstring>

#include "server/small_encoder.h"
#include "server/test_server.h"
#include "support/fixtures.h"
#include "text/base64.h"

namespace kvasir::testing {
namespace {

class EmbeddingsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<EncoderDir>();
    model_ = std::make_unique<LoadedModel>(encoder_options(with_tokenizer(*folder_, "bert_mean")));
  }
  static void TearDownTestSuite() {
    model_.reset();
    folder_.reset();
  }

  static std::vector<float> vector_of(const Json& json) { return json.get<std::vector<float>>(); }
  std::vector<float> embedded(const Json& input) {
    const Reply reply = server_.post("/v1/embeddings", {{"input", input}});
    EXPECT_EQ(reply.status, 200) << reply.body;
    return vector_of(reply.json()["data"][0]["embedding"]);
  }

  static inline std::unique_ptr<EncoderDir> folder_;
  static inline std::unique_ptr<LoadedModel> model_;
  TestServer server_{*model_, {}, {.model_name = "encoder"}};
};

TEST_F(EmbeddingsTest, OpenAiRepliesHaveTheirShape) {
  const Reply reply =
      server_.post("/v1/embeddings", {{"model", "any"}, {"input", {"The fox", "a crow saw cheeses"}}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = reply.json();
  EXPECT_EQ(json["object"], "list");
  EXPECT_EQ(json["model"], "encoder");
  ASSERT_EQ(json["data"].size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(json["data"][i]["object"], "embedding");
    EXPECT_EQ(json["data"][i]["index"], i);
    const std::vector<float> vector = vector_of(json["data"][i]["embedding"]);
    ASSERT_EQ(vector.size(), 24U);
    double length = 0;
    for (const float x : vector) length += static_cast<double>(x) * x;
    EXPECT_NEAR(length, 1, 1e-5);
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 4 + 7);  // [CLS] and [SEP] count
  EXPECT_EQ(json["usage"]["total_tokens"], 4 + 7);
}

TEST_F(EmbeddingsTest, TokensAreTakenAsTheyAre) {
  const std::vector<float> text = embedded("the fox");
  EXPECT_EQ(embedded(Json::array({2, 4, 5, 3})), text);
  EXPECT_EQ(embedded(Json::array({Json::array({2, 4, 5, 3})})), text);
  EXPECT_NE(embedded(Json::array({4, 5})), text);
}

// What a user writes never becomes a special token.
TEST_F(EmbeddingsTest, TextThatLooksSpecialIsText) { EXPECT_NE(embedded("[SEP]"), embedded(Json::array({2, 3, 3}))); }

TEST_F(EmbeddingsTest, Base64HasTheSameNumbers) {
  const std::vector<float> expected = embedded("the fox saw a crow");
  const Reply reply =
      server_.post("/v1/embeddings", {{"input", "the fox saw a crow"}, {"encoding_format", "base64"}});
  const auto bytes = decode_base64(reply.json()["data"][0]["embedding"].get<std::string>());
  ASSERT_TRUE(bytes);
  std::vector<float> got(bytes->size() / sizeof(float));
  std::memcpy(got.data(), bytes->data(), bytes->size());
  EXPECT_EQ(got, expected);
}

TEST_F(EmbeddingsTest, DimensionsAreTheFirstOnesOfLengthOne) {
  const std::vector<float> whole = embedded("the fox");
  const Reply reply = server_.post("/v1/embeddings", {{"input", "the fox"}, {"dimensions", 5}});
  const std::vector<float> part = vector_of(reply.json()["data"][0]["embedding"]);
  ASSERT_EQ(part.size(), 5U);
  double length = 0;
  for (const float x : part) length += static_cast<double>(x) * x;
  EXPECT_NEAR(length, 1, 1e-5);
  EXPECT_NEAR(part[0] * whole[1], part[1] * whole[0], 1e-6);
}

// Many clients at once, in batches that nobody chose: the same bits as alone.
TEST_F(EmbeddingsTest, NeighboursChangeNothing) {
  const std::vector<std::string> texts{"the fox", "a crow saw the fox saw a crow", "cheese", "the", "foxs crows saw"};
  std::vector<std::vector<float>> alone;
  for (const std::string& text : texts) alone.push_back(embedded(text));
  std::vector<std::future<void>> clients;
  for (int client = 0; client < 6; ++client) {
    clients.push_back(std::async(std::launch::async, [&, client] {
      Json input = Json::array();
      for (size_t i = 0; i < texts.size(); ++i)
        input.push_back(texts[(i + static_cast<size_t>(client)) % texts.size()]);
      const Json data = server_.post("/v1/embeddings", {{"input", input}}).json()["data"];
      for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(vector_of(data[i]["embedding"]), alone[(i + static_cast<size_t>(client)) % texts.size()]);
      }
    }));
  }
  for (auto& client : clients) client.get();
}

TEST_F(EmbeddingsTest, OllamaRepliesHaveTheirShape) {
  const Reply reply = server_.post("/api/embed", {{"model", "any"}, {"input", {"the fox", "a crow"}}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = reply.json();
  EXPECT_EQ(json["model"], "encoder");
  ASSERT_EQ(json["embeddings"].size(), 2U);
  EXPECT_EQ(vector_of(json["embeddings"][0]), embedded("the fox"));
  EXPECT_EQ(json["prompt_eval_count"], 8);
  EXPECT_GT(json["total_duration"], 0);
  const Reply older = server_.post("/api/embeddings", {{"model", "any"}, {"prompt", "a crow"}});
  EXPECT_EQ(vector_of(older.json()["embedding"]), embedded("a crow"));
}

// Ollama cuts what is too long unless it is told not to; OpenAI refuses it.
TEST_F(EmbeddingsTest, TextsAreNeverLongerThanTheContext) {
  std::string text = "fox";
  for (int i = 0; i < 60; ++i) text += " crow";
  const Reply refused = server_.post("/v1/embeddings", {{"input", text}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(server_.post("/api/embed", {{"input", text}, {"truncate", false}}).status, 400);
  const Reply cut = server_.post("/api/embed", {{"input", text}});
  ASSERT_EQ(cut.status, 200) << cut.body;
  EXPECT_EQ(cut.json()["prompt_eval_count"], 48);
  std::vector<int> tokens(48, 6);
  tokens[0] = 2;
  tokens[1] = 5;
  tokens[47] = 3;
  EXPECT_EQ(vector_of(cut.json()["embeddings"][0]), embedded(tokens));
}

TEST_F(EmbeddingsTest, WhatIsWrongIsNamed) {
  struct Case {
    Json body;
    std::string param;
  };
  const std::vector<Case> cases{{{{"model", "m"}}, "input"},
                                {{{"input", 5}}, "input"},
                                {{{"input", Json::array()}}, "input"},
                                {{{"input", {"a", 5}}}, "input"},
                                {{{"input", Json::object()}}, "input"},
                                {{{"input", std::vector<std::string>(2049, "a")}}, "input"},
                                {{{"input", {4, 67}}}, ""},
                                {{{"input", {4, -1}}}, "input"},
                                {{{"input", "a"}, {"encoding_format", "hex"}}, "encoding_format"},
                                {{{"input", "a"}, {"encoding_format", 5}}, "encoding_format"},
                                {{{"input", "a"}, {"dimensions", 0}}, "dimensions"},
                                {{{"input", "a"}, {"dimensions", 25}}, "dimensions"},
                                {{{"input", "a"}, {"dimensions", "5"}}, "dimensions"},
                                {{{"input", "a"}, {"model", 5}}, "model"},
                                {{{"input", "a"}, {"temperature", 0.5}}, "temperature"}};
  for (const Case& one : cases) {
    const Reply reply = server_.post("/v1/embeddings", one.body);
    EXPECT_EQ(reply.status, 400) << one.body;
    const Json error = reply.json()["error"];
    EXPECT_EQ(error["param"].is_null() ? "" : error["param"].get<std::string>(), one.param) << reply.body;
  }
  EXPECT_EQ(server_.post("/api/embed", {{"model", "m"}}).status, 400);
  EXPECT_EQ(server_.post("/api/embeddings", {{"prompt", {"a"}}}).status, 400);
  EXPECT_EQ(server_.ask("GET", "/v1/embeddings").status, 405);
  EXPECT_EQ(embedded("the fox").size(), 24U);  // and all is well
}

TEST_F(EmbeddingsTest, AnEncoderDoesNotAnswer) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
  const std::vector<std::pair<std::string, Json>> asked{{"/v1/chat/completions", {{"messages", messages}}},
                                                        {"/v1/completions", {{"prompt", "the fox"}}},
                                                        {"/v1/completions", {{"prompt", {4, 5}}}},
                                                        {"/v1/messages", {{"messages", messages}, {"max_tokens", 5}}},
                                                        {"/v1/responses", {{"input", "hi"}}},
                                                        {"/api/chat", {{"messages", messages}}},
                                                        {"/api/generate", {{"prompt", "hi"}}}};
  for (const auto& [path, body] : asked) {
    const Reply reply = server_.post(path, body);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_NE(reply.body.find("encoder"), std::string::npos) << path << reply.body;
  }
}

TEST_F(EmbeddingsTest, AnEncoderHasNoCacheAndSaysSo) {
  embedded("the fox");
  const Json cache = server_.ask("GET", "/props").json()["kv_cache"];
  EXPECT_EQ(cache["blocks"], 0);
  EXPECT_EQ(cache["bytes"], 0);
  const std::string metrics = server_.ask("GET", "/metrics").body;
  EXPECT_NE(metrics.find("kvasir:embedded_texts_total"), std::string::npos);
  EXPECT_NE(metrics.find("num_gpu_blocks=\"0\""), std::string::npos);
  EXPECT_EQ(server_.ask("GET", "/slots").json(), Json::array());
  EXPECT_EQ(server_.post("/api/show", {{"model", "m"}}).json()["capabilities"], Json::array({"embedding"}));
}

TEST_F(EmbeddingsTest, WhoLeavesLeavesNothingBehind) {
  for (int i = 0; i < 20; ++i) {
    Client client(server_.port());
    client.send(
        request_text("POST", "/v1/embeddings", Json{{"input", std::vector<std::string>(300, "a fox")}}.dump()));
    client.reset();
  }
  EXPECT_TRUE(eventually([&] { return at_rest(server_); }));
  EXPECT_EQ(embedded("the fox").size(), 24U);
}

class DecoderEmbeddingsTest : public ServedDraft {};

// Between the steps of an answer, and without changing it.
TEST_F(DecoderEmbeddingsTest, ADecoderEmbedsBesideItsAnswers) {
  TestServer server(*model_, {}, {.model_name = "draft"});
  const Reply expected = server.post("/v1/chat/completions", story(40));
  const Reply vector = server.post("/v1/embeddings", {{"input", "A fox saw a crow."}});
  ASSERT_EQ(vector.status, 200) << vector.body;
  auto answer = std::async(std::launch::async, [&] { return server.post("/v1/chat/completions", story(40)); });
  for (int i = 0; i < 10; ++i) {
    const Reply again = server.post("/v1/embeddings", {{"input", {"Once", "A fox saw a crow."}}});
    EXPECT_EQ(again.json()["data"][1]["embedding"], vector.json()["data"][0]["embedding"]);
  }
  EXPECT_EQ(answer.get().json()["choices"], expected.json()["choices"]);
}

TEST_F(DecoderEmbeddingsTest, TenantsAreServedInTurn) {
  KeysFile keys;
  keys.secret = random_secret();
  for (const char* name : {"a", "b"}) keys.entries.push_back({name, hash_of_key(name), "", {}});
  TestServer server(*model_, {}, {.model_name = "draft", .keys = keys});
  const std::string body = Json{{"input", std::vector<std::string>(200, "A fox saw a crow and some cheese.")}}.dump();
  EXPECT_EQ(server.ask("POST", "/v1/embeddings", body).status, 401);
  auto many = std::async(std::launch::async,
                         [&] { return server.ask("POST", "/v1/embeddings", body, "x-api-key: a\r\n").status; });
  EXPECT_EQ(server.ask("POST", "/v1/embeddings", R"({"input":"A fox"})", "x-api-key: b\r\n").status, 200);
  EXPECT_EQ(many.get(), 200);
}

}  // namespace
}  // namespace kvasir::testing
