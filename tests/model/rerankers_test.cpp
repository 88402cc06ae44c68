// Scores of pairs against Hugging Face transformers, on every backend; and that nothing of a score depends on what it
// was computed beside.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "backend/cpu/isa.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/embedder.h"
#include "model/config.h"
#include "model/rerank_head.h"
#include "model/safetensors.h"
#include "model/tensors.h"
#include "model/vector_head.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

struct Pair {
  std::vector<TokenId> tokens;
  std::vector<TokenId> types;
};

struct Scores {
  std::vector<Pair> pairs;
  std::vector<float> scores;
};

template <class T>
std::vector<T> stored_numbers(const SafetensorsFile& file, const char* name) {
  const auto bytes = file.tensors.find(name)->second.bytes;
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

Scores read_scores(const std::string& name) {
  const SafetensorsFile file(golden_dir(name) / "scores.safetensors");
  const auto tokens = stored_numbers<TokenId>(file, "tokens");
  const auto types = stored_numbers<TokenId>(file, "types");
  Scores out;
  out.scores = stored_numbers<float>(file, "scores");
  std::ptrdiff_t at = 0;
  for (const std::int32_t length : stored_numbers<std::int32_t>(file, "lengths")) {
    out.pairs.push_back(
        {{tokens.begin() + at, tokens.begin() + at + length}, {types.begin() + at, types.begin() + at + length}});
    at += length;
  }
  return out;
}

struct LoadedReranker {
  LoadedReranker(const std::string& name, const BackendOptions& options, int max_rows = 512)
      : backend(make_backend(options)),
        model(load_model(golden_dir(name), *backend, {.max_rows = max_rows, .progress = {}})),
        embedder(*backend, *model, 0),
        head(golden_dir(name), model->config()),
        vectors(golden_dir(name), model->config()) {}

  Embedder::Text view(const Pair& pair) const { return {pair.tokens, pair.types, &head}; }
  std::vector<Embedder::Text> views(const Scores& golden) const {
    std::vector<Embedder::Text> out;
    for (const Pair& pair : golden.pairs) out.push_back(view(pair));
    return out;
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  Embedder embedder;
  RerankHead head;
  VectorHead vectors;
};

class RerankerTest : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> all_rerankers() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir(""))) {
    if (std::filesystem::exists(entry.path() / "scores.safetensors")) out.push_back(entry.path().filename().string());
  }
  std::ranges::sort(out);
  return out;
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, RerankerTest, ::testing::ValuesIn(all_rerankers()),
                         [](const auto& reranker) { return reranker.param; });

TEST_P(RerankerTest, EveryBackendMatchesTransformers) {
  const Scores golden = read_scores(GetParam());
  std::vector<BackendOptions> backends{{"ref", 1, "auto", ActivationPrecision::kF32}};
  for (const Isa isa : available_isas()) {
    backends.push_back({"cpu", 2, std::string(name_of(isa)), ActivationPrecision::kF32});
  }
  if (!cuda_devices().empty()) backends.push_back({"cuda:0", 1, "auto", ActivationPrecision::kF32});
  float largest = 0;
  for (const float score : golden.scores) largest = std::max(largest, std::abs(score));
  for (const BackendOptions& options : backends) {
    LoadedReranker loaded(GetParam(), options);
    const auto scores = loaded.embedder.run(loaded.views(golden));
    ASSERT_EQ(scores.size(), golden.scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      ASSERT_EQ(scores[i].size(), 1U);
      ASSERT_NEAR(scores[i].front(), golden.scores[i], 1e-4 * largest) << loaded.backend->description() << " " << i;
    }
  }
}

// Alone, in another order, beside texts that become vectors, in small steps: the same bits.
TEST_P(RerankerTest, NeighboursChangeNothing) {
  const Scores golden = read_scores(GetParam());
  LoadedReranker loaded(GetParam(), {"cpu", 2, "auto"});
  LoadedReranker small(GetParam(), {"cpu", 2, "auto"}, 5);
  const auto together = loaded.embedder.run(loaded.views(golden));
  const Embedder::Text vector{golden.pairs.back().tokens, {}, &loaded.vectors};
  std::vector<Embedder::Text> mixed = loaded.views(golden);
  std::ranges::reverse(mixed);
  mixed.insert(mixed.begin() + 1, vector);
  auto others = loaded.embedder.run(mixed);
  EXPECT_EQ(others[1], loaded.embedder.run({&vector, 1}).front());
  others.erase(others.begin() + 1);
  std::ranges::reverse(others);
  EXPECT_EQ(others, together);
  for (size_t i = 0; i < golden.pairs.size(); ++i) {
    const Embedder::Text alone = loaded.view(golden.pairs[i]);
    EXPECT_EQ(loaded.embedder.run({&alone, 1}).front(), together[i]) << i;
    const Embedder::Text parts = small.view(golden.pairs[i]);
    EXPECT_EQ(small.embedder.run({&parts, 1}).front(), together[i]) << i;
  }
}

TEST(RerankSpecTest, FoldersSayWhatAScoreIs) {
  using End = RerankSpec::End;
  const RerankSpec bert = load_config(golden_dir("bert_reranker")).rerank;
  EXPECT_TRUE(bert.ranks());
  EXPECT_EQ(bert.end, End::kLogit);
  EXPECT_EQ(load_config(golden_dir("xlm_roberta_reranker")).rerank.end, End::kSigmoid);  // one label, and no word
  const RerankSpec modern = load_config(golden_dir("modern_bert_reranker")).rerank;
  EXPECT_EQ(modern.pooling, VectorSpec::Pooling::kMean);
  EXPECT_TRUE(modern.between.norm);
  const RerankSpec qwen3 = load_config(golden_dir("qwen3_reranker")).rerank;
  EXPECT_EQ(qwen3.kind, RerankSpec::Kind::kTokens);
  EXPECT_EQ(qwen3.yes, 11);
  EXPECT_EQ(qwen3.end, End::kYesOrNo);
  EXPECT_FALSE(load_config(golden_dir("bert_mean")).rerank.ranks());
  EXPECT_FALSE(load_config(golden_dir("gqa")).rerank.ranks());
}

TEST(RerankSpecTest, AClassifierOfADecoderCachesNothingAndWritesNothing) {
  const ModelSpec spec = load_config(golden_dir("qwen3_classifier"));
  EXPECT_FALSE(spec.encodes());
  EXPECT_FALSE(spec.generates());
  EXPECT_TRUE(kv_groups(spec, uniform_policy(KvFormat::kF16)).empty());
  EXPECT_TRUE(load_config(golden_dir("qwen3_reranker")).generates());
}

// A folder with other words in its config.
class RerankConfigTest : public ::testing::Test {
 protected:
  static ModelSpec with(const std::string& fixture, const std::string& from, const std::string& to) {
    std::ifstream file(golden_dir(fixture) / "config.json");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return parse_config(text.replace(at, from.size(), to), "config.json");
  }
};

TEST_F(RerankConfigTest, AClassifierOfTopicsDoesNotRank) {
  const ModelSpec topics = with("bert_reranker", R"("0": "LABEL_0")", R"("0": "a", "1": "b", "2": "c")");
  EXPECT_EQ(topics.rerank.labels, 3);
  EXPECT_FALSE(topics.rerank.ranks());
  EXPECT_FALSE(with("bert_reranker", "ForSequenceClassification", "Model").rerank.ranks());
}

TEST_F(RerankConfigTest, OtherFunctionsAreRefusedByName) {
  EXPECT_THROW(with("bert_reranker", "linear.Identity", "activation.ReLU"), Error);
  EXPECT_THROW(
      with("modern_bert_reranker", R"("classifier_activation": "gelu")", R"("classifier_activation": "silu")"),
      Error);
  EXPECT_THROW(with("modern_bert_reranker", R"("classifier_pooling": "mean")", R"("classifier_pooling": "max")"),
               Error);
}

TEST(RerankEmbedderTest, TypesThatAreNoneAreRefused) {
  const LoadedReranker loaded("bert_reranker", {"cpu", 1, "auto"});
  const std::vector<TokenId> tokens{3, 4};
  const std::vector<TokenId> known{0, 1};
  const std::vector<TokenId> unknown{0, 2};
  EXPECT_NO_THROW(loaded.embedder.check({tokens, known}));
  EXPECT_THROW(loaded.embedder.check({tokens, unknown}), Error);
}

}  // namespace
}  // namespace kvasir::testing
