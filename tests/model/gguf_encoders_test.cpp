// Encoders and rerankers through GGUF: the same vectors and scores as from their folders, and what a file cannot say.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/embedder.h"
#include "model/config.h"
#include "model/convert.h"
#include "model/rerank_head.h"
#include "model/vector_head.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class EncoderFile {
 public:
  explicit EncoderFile(const std::string& fixture, DType type)
      : path_(std::filesystem::temp_directory_path() /
              ("kvasir_gguf_encoder_" + std::to_string(::getpid()) + "_" + fixture + ".gguf")),
        notes_(
            convert_to_gguf(golden_dir(fixture), path_, {}, {type, {GgufWriteOptions::Existing::kReplace, 1, {}}})) {}
  ~EncoderFile() { std::filesystem::remove(path_); }
  EncoderFile(const EncoderFile&) = delete;
  EncoderFile& operator=(const EncoderFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::filesystem::path path_;
  std::vector<std::string> notes_;
};

// What a model makes of a few texts: scores, of a reranker, or vectors.
std::vector<std::vector<float>> made_of_texts(const std::filesystem::path& path, const BackendOptions& options) {
  const auto backend = make_backend(options);
  const auto model = load_model(path, *backend, {.max_rows = 64, .progress = {}});
  const ModelSpec& spec = model->config();
  std::unique_ptr<RowHead> head;
  if (spec.rerank.classifies()) {
    head = std::make_unique<RerankHead>(path, spec);
  } else {
    head = std::make_unique<VectorHead>(path, spec);
  }
  Embedder embedder(*backend, *model, 0);
  std::vector<std::vector<float>> out;
  for (const int length : {1, 7, 30}) {
    std::vector<TokenId> tokens;
    std::vector<TokenId> types;
    for (int i = 0; i < length; ++i) {
      tokens.push_back((i * i + 3 * i + length) % spec.vocab);
      types.push_back(spec.token_types > 1 && i > length / 2 ? 1 : 0);
    }
    const Embedder::Text text{tokens, types, head.get()};
    out.push_back(embedder.run({&text, 1}).front());
  }
  return out;
}

class GgufEncoder : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Fixtures, GgufEncoder,
                         ::testing::Values("bert_mean", "xlm_roberta", "modern_bert", "nomic_bert", "embedding_gemma",
                                           "bert_reranker", "xlm_roberta_reranker", "modern_bert_reranker",
                                           "qwen3_classifier", "qwen3_embedding"),
                         [](const auto& golden) { return golden.param; });

TEST_P(GgufEncoder, SaysTheSameBitForBit) {
  const EncoderFile file(GetParam(), load_config(golden_dir(GetParam())).dtype);
  for (const BackendOptions& options : {BackendOptions{"ref", 1, "auto"}, BackendOptions{"cpu", 2, "auto"}}) {
    EXPECT_EQ(made_of_texts(file.path(), options), made_of_texts(golden_dir(GetParam()), options)) << options.device;
  }
}

TEST_P(GgufEncoder, ItsSpecIsThatOfTheFolder) {
  const EncoderFile file(GetParam(), DType::kF32);
  const ModelSpec want = load_config(golden_dir(GetParam()));
  ModelSpec got = load_config(file.path());
  EXPECT_EQ(got.rerank, want.rerank);
  EXPECT_EQ(got.encodes(), want.encodes());
  EXPECT_EQ(got.generates(), want.generates());
  EXPECT_EQ(got.context, want.context);
  EXPECT_EQ(got.positions, want.positions);
  EXPECT_EQ(got.token_types, want.token_types);
  EXPECT_EQ(got.vectors.dense.size(), want.vectors.dense.size());
  EXPECT_EQ(parameter_count(got), parameter_count(want));
}

// Through GGUF a second time.
TEST_P(GgufEncoder, AFileBecomesTheSameFile) {
  const EncoderFile file(GetParam(), DType::kF32);
  const std::filesystem::path again = file.path().string() + ".again.gguf";
  convert_to_gguf(file.path(), again, {}, {DType::kF32, {GgufWriteOptions::Existing::kReplace, 1, {}}});
  const BackendOptions ref{"ref", 1, "auto"};
  EXPECT_EQ(made_of_texts(again, ref), made_of_texts(file.path(), ref));
  std::filesystem::remove(again);
}

TEST(GgufEncoders, WhatAFileCannotSayIsRefusedOrNoted) {
  EXPECT_THROW(EncoderFile("bert_dense", DType::kF32), Error);  // layers behind the pooling
  const EncoderFile unnormalized("bert_cls", DType::kF32);
  EXPECT_TRUE(std::ranges::any_of(
      unnormalized.notes(), [](const std::string& note) { return note.find("length 1") != std::string::npos; }));
  EXPECT_TRUE(load_config(unnormalized.path()).vectors.normalized);
}

}  // namespace
}  // namespace kvasir::testing
