// Vectors of texts against Hugging Face transformers, on every backend; and that nothing of a vector depends on what
// it was computed beside.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "backend/cpu/isa.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/embedder.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "model/vector_head.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

struct Vectors {
  std::vector<std::vector<TokenId>> texts;
  std::vector<std::vector<float>> vectors;
};

template <class T>
std::vector<T> numbers_of(const SafetensorsFile& file, const char* name) {
  const auto bytes = file.tensors.find(name)->second.bytes;
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

Vectors read_vectors(const std::string& name) {
  const SafetensorsFile file(golden_dir(name) / "vectors.safetensors");
  const auto tokens = numbers_of<TokenId>(file, "tokens");
  const auto lengths = numbers_of<std::int32_t>(file, "lengths");
  const auto vectors = numbers_of<float>(file, "vectors");
  const auto width = static_cast<std::ptrdiff_t>(vectors.size() / lengths.size());
  Vectors out;
  auto token = tokens.begin();
  auto number = vectors.begin();
  for (const std::int32_t length : lengths) {
    out.texts.emplace_back(token, token + length);
    out.vectors.emplace_back(number, number + width);
    token += length;
    number += width;
  }
  return out;
}

LoadOptions options_of(int max_rows) {
  LoadOptions options;
  options.max_rows = max_rows;
  return options;
}

struct Loaded {
  Loaded(const std::string& name, const BackendOptions& options, int max_rows = 512)
      : backend(make_backend(options)),
        model(load_model(golden_dir(name), *backend, options_of(max_rows))),
        embedder(*backend, *model, 0),
        head(golden_dir(name), model->config()) {}

  Embedder::Text view(std::span<const TokenId> tokens) const { return {tokens, {}, &head}; }
  std::vector<Embedder::Text> views(const Vectors& golden) const {
    std::vector<Embedder::Text> out;
    for (const auto& text : golden.texts) out.push_back(view(text));
    return out;
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  Embedder embedder;
  VectorHead head;
};

class EncoderTest : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> all_encoders() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir(""))) {
    if (std::filesystem::exists(entry.path() / "vectors.safetensors"))
      out.push_back(entry.path().filename().string());
  }
  std::ranges::sort(out);
  return out;
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, EncoderTest, ::testing::ValuesIn(all_encoders()),
                         [](const auto& encoder) { return encoder.param; });

TEST_P(EncoderTest, EveryBackendMatchesTransformers) {
  const Vectors golden = read_vectors(GetParam());
  std::vector<BackendOptions> backends{{"ref", 1, "auto", ActivationPrecision::kF32}};
  for (const Isa isa : available_isas()) {
    backends.push_back({"cpu", 2, std::string(name_of(isa)), ActivationPrecision::kF32});
  }
  if (!cuda_devices().empty()) backends.push_back({"cuda:0", 1, "auto", ActivationPrecision::kF32});
  for (const BackendOptions& options : backends) {
    Loaded loaded(GetParam(), options);
    const auto vectors = loaded.embedder.run(loaded.views(golden));
    for (size_t text = 0; text < vectors.size(); ++text) {
      ASSERT_EQ(vectors[text].size(), golden.vectors[text].size());
      double largest = 0;
      double worst = 0;
      for (size_t i = 0; i < vectors[text].size(); ++i) {
        const double expected = golden.vectors[text][i];
        largest = std::max(largest, std::abs(expected));
        worst = std::max(worst, std::abs(expected - vectors[text][i]));
      }
      ASSERT_LT(worst / largest, 1e-4) << loaded.backend->description() << ", text " << text;
    }
  }
}

// Alone, in another order, twice in one batch, behind another batch: the same bits.
TEST_P(EncoderTest, NeighboursChangeNothing) {
  const Vectors golden = read_vectors(GetParam());
  Loaded loaded(GetParam(), {"cpu", 2, "auto"});
  const auto together = loaded.embedder.run(loaded.views(golden));
  std::vector<Embedder::Text> others = loaded.views(golden);
  std::ranges::reverse(others);
  others.insert(others.begin(), others.front());
  auto reversed = loaded.embedder.run(others);
  EXPECT_EQ(reversed[0], reversed[1]);
  reversed.erase(reversed.begin());
  std::ranges::reverse(reversed);
  EXPECT_EQ(reversed, together);
  for (size_t i = 0; i < golden.texts.size(); ++i) {
    const Embedder::Text alone = loaded.view(golden.texts[i]);
    EXPECT_EQ(loaded.embedder.run({&alone, 1}).front(), together[i]) << i;
  }
}

// A decoder's text may be longer than a step; an encoder's is never cut.
TEST_P(EncoderTest, SmallStepsChangeNothing) {
  const Vectors golden = read_vectors(GetParam());
  Loaded whole(GetParam(), {"cpu", 2, "auto"});
  Loaded small(GetParam(), {"cpu", 2, "auto"}, 5);
  const auto expected = whole.embedder.run(whole.views(golden));
  for (size_t i = 0; i < golden.texts.size(); ++i) {
    const Embedder::Text alone = small.view(golden.texts[i]);
    EXPECT_EQ(small.embedder.run({&alone, 1}).front(), expected[i]) << i;
  }
}

TEST(EncoderSpecTest, AnEncoderCachesNothing) {
  const ModelSpec spec = load_config(golden_dir("bert_mean"));
  EXPECT_TRUE(spec.encodes());
  EXPECT_TRUE(kv_groups(spec, uniform_policy(KvFormat::kF16)).empty());
  EXPECT_EQ(scratch_groups(spec).size(), 1U);
}

TEST(EncoderSpecTest, FoldersSayHowRowsBecomeAVector) {
  using Pooling = VectorSpec::Pooling;
  const VectorSpec mean = load_config(golden_dir("bert_mean")).vectors;
  EXPECT_EQ(mean.pooling, Pooling::kMean);
  EXPECT_TRUE(mean.normalized);
  const VectorSpec cls = load_config(golden_dir("bert_cls")).vectors;
  EXPECT_EQ(cls.pooling, Pooling::kCls);
  EXPECT_FALSE(cls.normalized);
  EXPECT_EQ(load_config(golden_dir("qwen3_embedding")).vectors.pooling, Pooling::kLast);
  EXPECT_EQ(load_config(golden_dir("gqa")).vectors, VectorSpec{});  // a decoder that says nothing
  EXPECT_EQ(load_config(golden_dir("bert_dense")).vectors.dense.size(), 2U);
}

TEST(EncoderSpecTest, WindowsLookBothWays) {
  const ModelSpec modern = load_config(golden_dir("modern_bert"));
  EXPECT_FALSE(modern.layers[0].attention_norm);
  EXPECT_EQ(modern.attention(0).bias.kind, PositionBiasSpec::Kind::kNone);
  EXPECT_EQ(modern.attention(1).bias.kind, PositionBiasSpec::Kind::kNear);
  EXPECT_EQ(modern.attention(1).bias.most_distance, 4);  // half of 8
  EXPECT_EQ(modern.attention(1).window, 0);
  EXPECT_EQ(modern.attention(3).bias.kind, PositionBiasSpec::Kind::kNone);
  EXPECT_TRUE(load_config(golden_dir("embedding_gemma")).encodes());
  EXPECT_FALSE(load_config(golden_dir("gemma3")).encodes());
}

TEST(EncoderSpecTest, PositionsBehindThePaddingShortenTheContext) {
  const ModelSpec spec = load_config(golden_dir("xlm_roberta"));
  EXPECT_EQ(spec.positions, 46);
  EXPECT_EQ(spec.first_position, 2);
  EXPECT_EQ(spec.context, 46);
}

TEST(EmbedderTest, TextsThatAreNoneAreRefused) {
  Loaded loaded("bert_mean", {"cpu", 1, "auto"});
  const std::vector<TokenId> none;
  const std::vector<TokenId> longest(48, 3);
  const std::vector<TokenId> longer(49, 3);
  const std::vector<TokenId> unknown{3, 67};
  EXPECT_EQ(loaded.embedder.longest(), 48);
  EXPECT_NO_THROW(loaded.embedder.check({longest}));
  for (const auto& text : {none, longer, unknown}) EXPECT_THROW(loaded.embedder.check({text}), Error);
}

// A folder of sentence-transformers, with other words in one of its files.
class SentenceFilesTest : public ::testing::Test {
 protected:
  SentenceFilesTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvasir-sentence-XXXXXX").string();
    folder_ = std::filesystem::path(mkdtemp(pattern.data())) / "model";
    std::filesystem::copy(golden_dir("bert_dense"), folder_, std::filesystem::copy_options::recursive);
  }
  ~SentenceFilesTest() override { std::filesystem::remove_all(folder_.parent_path()); }

  // What is said where the file has this text.
  std::string error_with(const char* file, const std::string& text) const {
    std::ofstream(folder_ / file) << text;
    try {
      VectorHead(folder_, load_config(folder_));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void expect_error(const char* file, const std::string& text, const std::string& part) const {
    const std::string error = error_with(file, text);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }

  std::filesystem::path folder_;
};

TEST_F(SentenceFilesTest, NewerFilesNameThePooling) {
  EXPECT_EQ(error_with("1_Pooling/config.json", R"({"pooling_mode":"lasttoken"})"), "");
  EXPECT_EQ(load_config(folder_).vectors.pooling, VectorSpec::Pooling::kLast);
}

TEST_F(SentenceFilesTest, OtherPoolingIsRefusedByName) {
  expect_error("1_Pooling/config.json", R"({"pooling_mode_max_tokens":true})", "pooling_mode_max_tokens");
  expect_error("1_Pooling/config.json", R"({"pooling_mode":"max"})", "pooling by max");
  expect_error("1_Pooling/config.json", R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})",
               "several ways together");
}

TEST_F(SentenceFilesTest, OtherModulesAreRefused) {
  expect_error("modules.json", R"([{"path":"","type":"sentence_transformers.models.LSTM"}])", "LSTM");
  expect_error("modules.json", R"([{"path":"../x","type":"sentence_transformers.models.Pooling"}])", "../x");
  expect_error("modules.json", R"([{"path":"1_Pooling"}])", "type");
  expect_error("modules.json", "[[[", "modules.json");
}

TEST_F(SentenceFilesTest, DenseLayersThatDoNotFitAreRefused) {
  const std::string right = R"({"in_features":20,"out_features":12,"bias":false,"activation_function":"x.Identity"})";
  EXPECT_EQ(error_with("3_Dense/config.json", right), "");
  expect_error("3_Dense/config.json", R"({"in_features":21,"out_features":12,"bias":false})", "takes 21 numbers");
  expect_error("3_Dense/config.json", R"({"in_features":20,"out_features":13,"bias":false})", "linear.weight");
  expect_error("3_Dense/config.json", R"({"in_features":20,"out_features":12,"activation_function":"x.GELU"})",
               "GELU");
}

TEST(VectorHeadTest, ShortenedVectorsHaveTheLengthThatWholeOnesHave) {
  std::vector<float> vector{0.6F, 0.0F, 0.8F};
  shorten(vector, 2, VectorSpec{});
  EXPECT_EQ(vector, (std::vector<float>{1.0F, 0.0F}));
  std::vector<float> plain{3, 4, 5};
  shorten(plain, 2, VectorSpec{.normalized = false});
  EXPECT_EQ(plain, (std::vector<float>{3, 4}));
}

TEST(Embedder, RefusesAModelThatKeepsStates) {
  const Loaded loaded("qwen3_next", {"cpu", 1, "auto"}, 64);
  const std::vector<TokenId> text{1, 2, 3};
  EXPECT_THROW(loaded.embedder.check({text}), Error);
}

}  // namespace
}  // namespace kvasir::testing
