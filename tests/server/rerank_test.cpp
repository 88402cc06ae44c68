// Documents scored over HTTP, as Jina's and Cohere's clients ask for it: by a cross-encoder and by a decoder; what is
// refused; and that nobody's score depends on who else asks.
#include <gtest/gtest.h>

#include <future>

#include "server/small_encoder.h"
#include "server/test_server.h"

namespace kvasir::testing {
namespace {

const std::vector<std::string> kFables{"a crow saw the cheese", "foxes", "the crow", "a fox saw a crow"};

class RerankTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<EncoderDir>();
    model_ = std::make_unique<LoadedModel>(encoder_options(with_tokenizer(*folder_, "bert_reranker")));
  }
  static void TearDownTestSuite() {
    model_.reset();
    folder_.reset();
  }

  // By the documents' places.
  std::vector<float> scores(const std::vector<std::string>& documents) {
    const Reply reply = server_.post("/v1/rerank", {{"query", "the fox"}, {"documents", documents}});
    EXPECT_EQ(reply.status, 200) << reply.body;
    std::vector<float> out(documents.size());
    const Json json = reply.json();
    for (const Json& one : json["results"]) out[one["index"].get<size_t>()] = one["relevance_score"].get<float>();
    return out;
  }

  static inline std::unique_ptr<EncoderDir> folder_;
  static inline std::unique_ptr<LoadedModel> model_;
  TestServer server_{*model_, {}, {.model_name = "reranker"}};
};

TEST_F(RerankTest, RepliesAreJinasShape) {
  const Reply reply =
      server_.post("/v1/rerank", {{"model", "any"}, {"query", "the fox"}, {"documents", kFables}, {"top_n", 3}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json json = reply.json();
  EXPECT_EQ(json["model"], "reranker");
  ASSERT_EQ(json["results"].size(), 3U);
  float before = std::numeric_limits<float>::infinity();
  for (const Json& one : json["results"]) {
    EXPECT_EQ(one["document"]["text"], kFables[one["index"].get<size_t>()]);
    EXPECT_LE(one["relevance_score"].get<float>(), before);
    before = one["relevance_score"].get<float>();
  }
  // [CLS] the fox [SEP] and [SEP] behind each document; a word that nobody knows is one token
  EXPECT_EQ(json["usage"]["total_tokens"], 4 * 5 + 5 + 1 + 2 + 5);
}

// The tokenizer's template for pairs: [CLS] query [SEP] document [SEP], and the document's tokens of type 1.
TEST_F(RerankTest, ScoresAreThoseOfTheTokenizersPairs) {
  const std::vector<TokenId> tokens{2, 4, 5, 3, 8, 5, 7, 8, 6, 3};
  const std::vector<TokenId> types{0, 0, 0, 0, 1, 1, 1, 1, 1, 1};
  Embedder embedder(*model_->backend, *model_->model, 0);
  const Embedder::Text pair{tokens, types, &model_->reranker->head};
  EXPECT_EQ(scores(kFables)[3], embedder.run({&pair, 1}).front().front());
  const std::vector<TokenId> untyped(types.size());
  const Embedder::Text other{tokens, untyped, &model_->reranker->head};
  EXPECT_NE(scores(kFables)[3], embedder.run({&other, 1}).front().front());
}

TEST_F(RerankTest, OtherDocumentsChangeNothing) {
  const std::vector<float> together = scores(kFables);
  for (size_t i = 0; i < kFables.size(); ++i) EXPECT_EQ(scores({kFables[i]}).front(), together[i]) << i;
  std::vector<std::future<std::vector<float>>> at_once;
  for (int i = 0; i < 4; ++i) at_once.push_back(std::async(std::launch::async, [&] { return scores(kFables); }));
  for (auto& one : at_once) EXPECT_EQ(one.get(), together);
}

TEST_F(RerankTest, OtherPathsAndFormsAreTheSame) {
  const Json body{{"query", "the fox"}, {"documents", kFables}};
  const Json expected = server_.post("/v1/rerank", body).json()["results"];
  for (const char* path : {"/rerank", "/reranking", "/v1/reranking", "/v2/rerank"})
    EXPECT_EQ(server_.post(path, body).json()["results"], expected) << path;
  Json objects = Json::array();
  for (const std::string& text : kFables) objects.push_back({{"text", text}});
  EXPECT_EQ(server_.post("/v1/rerank", {{"query", "the fox"}, {"documents", objects}}).json()["results"], expected);
  const Json bare =
      server_.post("/v1/rerank", {{"query", "the fox"}, {"documents", kFables}, {"return_documents", false}}).json();
  EXPECT_FALSE(bare["results"][0].contains("document"));
  EXPECT_EQ(bare["results"][0]["index"], expected[0]["index"]);
}

TEST_F(RerankTest, LongDocumentsAreRefusedOrCut) {
  std::string text = "the crow";
  for (int i = 0; i < 60; ++i) text += " a fox";
  const Reply refused = server_.post("/v1/rerank", {{"query", "the fox"}, {"documents", {"a", text}}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("documents[1]"), std::string::npos) << refused.body;
  const auto cut = [&](int most) {
    return server_.post("/v1/rerank", {{"query", "the fox"}, {"documents", {text}}, {"max_tokens_per_doc", most}});
  };
  EXPECT_EQ(cut(2).json()["results"][0]["relevance_score"].get<float>(), scores({"the crow"}).front());
  EXPECT_EQ(cut(1000).json()["usage"]["total_tokens"], 48);  // as many as the model reads
}

TEST_F(RerankTest, BadRequestsAreRefusedByName) {
  const std::vector<std::pair<Json, std::string>> cases{
      {{{"documents", kFables}}, "query"},
      {{{"query", 5}, {"documents", kFables}}, "query"},
      {{{"query", "a"}}, "documents"},
      {{{"query", "a"}, {"documents", "b"}}, "documents"},
      {{{"query", "a"}, {"documents", Json::array()}}, "documents"},
      {{{"query", "a"}, {"documents", {5}}}, "documents"},
      {{{"query", "a"}, {"documents", {{{"title", "x"}}}}}, "documents[0].text"},
      {{{"query", "a"}, {"documents", std::vector<std::string>(2049, "a")}}, "documents"},
      {{{"query", "a"}, {"documents", kFables}, {"top_n", 0}}, "top_n"},
      {{{"query", "a"}, {"documents", kFables}, {"return_documents", 5}}, "return_documents"},
      {{{"query", "a"}, {"documents", kFables}, {"max_tokens_per_doc", 0}}, "max_tokens_per_doc"},
      {{{"query", "a"}, {"documents", kFables}, {"instruction", "find"}}, "instruction"},
      {{{"query", "a"}, {"documents", kFables}, {"temperature", 1}}, "temperature"}};
  for (const auto& [body, param] : cases) {
    const Reply reply = server_.post("/v1/rerank", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.json()["error"]["param"], param) << reply.body;
  }
  EXPECT_EQ(server_.ask("GET", "/v1/rerank").status, 405);
  EXPECT_EQ(scores(kFables).size(), 4U);  // and all is well
}

TEST_F(RerankTest, AClassifierDoesNotAnswer) {
  const Reply reply = server_.post("/v1/completions", {{"prompt", "the fox"}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("/v1/rerank"), std::string::npos) << reply.body;
}

class NoRerankerTest : public ServedDraft {};

TEST_F(NoRerankerTest, AnotherModelSaysSo) {
  TestServer server(*model_, {}, {.model_name = "draft"});
  const Reply reply = server.post("/v1/rerank", {{"query", "a"}, {"documents", kFables}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["code"], "model_not_a_reranker");
}

}  // namespace
}  // namespace kvasir::testing
