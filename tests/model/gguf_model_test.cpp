// Models through GGUF: the same logits as from safetensors, and errors where a file contradicts itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "backend/cpu/isa.h"
#include "backend/make_backend.h"
#include "backend/quant/encode.h"
#include "backend/weight_reader.h"
#include "base/error.h"
#include "model/convert.h"
#include "model/gguf/gguf_config.h"
#include "model/known_models.h"
#include "model/random_model.h"
#include "support/fixtures.h"
#include "support/forward.h"
#include "support/random_data.h"

namespace kvasir::testing {
namespace {

constexpr auto kReplace = GgufWriteOptions::Existing::kReplace;

const std::vector<TokenId> kTokens{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43, 38, 32, 79, 50, 28};

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / name()) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  static std::string name() {
    std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(test, '/', '_');
    return "kvasir_gguf_" + std::to_string(::getpid()) + "_" + test;
  }

  std::filesystem::path path_;
};

std::vector<TokenId> tokens_of(const ModelSpec& spec) {
  std::vector<TokenId> tokens = kTokens;
  for (TokenId& token : tokens) token %= spec.vocab;
  return tokens;
}

std::vector<float> logits_of(const std::filesystem::path& model, Backend& backend) {
  const auto loaded = load_model(model, backend, {64, {}});
  return forward(*loaded, backend, tokens_of(loaded->config()));
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class GgufGolden : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(
    Fixtures, GgufGolden,
    ::testing::Values("mha", "gqa", "mqa_tied", "odd_head_dim", "narrow_head", "biases", "rope_linear", "rope_yarn",
                      "rope_yarn_mscale", "bf16", "f16_tied", "gqa_sharded", "mistral_window", "mistral_window_tied",
                      "qwen2", "qwen2_window", "qwen2_layer_types", "qwen3", "qwen3_bias", "qwen3_window",
                      "qwen3_moe", "qwen3_moe_dense_layers", "qwen3_moe_window", "mixtral", "mixtral_window", "olmoe",
                      "olmoe_normalized", "gemma2", "gemma2_uncapped", "gemma3", "olmo2", "olmo2_bias", "olmo3",
                      "exaone4", "exaone4_hybrid", "granite", "granite_bias", "seed_oss", "seed_oss_out_bias",
                      "smollm3", "cohere2", "cohere2_bias", "starcoder2", "starcoder2_window", "gpt_oss",
                      "gpt_oss_full", "gemma", "phi3", "phi3_long", "phi3_short", "qwen2_moe",
                      "qwen2_moe_dense_layers", "deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "deepseek_v3_half",
                      "kimi_k2", "glm4_moe_lite", "glm4_moe_lite_listed", "mistral4", "mistral4_grouped", "glm4",
                      "glm4_plain", "glm4_moe", "glm4_moe_grouped", "llama4", "gemma4_dense_keqv", "gemma4_moe",
                      "gemma4_ple_shared", "ministral3", "ministral3_window", "gpt2", "gpt_bigcode",
                      "gpt_bigcode_all_heads", "gpt_neox", "gpt_neox_serial", "falcon_7b", "falcon_11b", "falcon_40b",
                      "phi2", "phi2_qk_norm", "stablelm", "stablelm_parallel", "cohere", "cohere_qk_norm", "bloom",
                      "olmo", "olmo_unclipped", "granitemoe", "hunyuan_dense", "hunyuan_dense_bias", "hunyuan_moe",
                      "minimax_m2", "ernie4_5", "ernie4_5_bias", "qwen3_next", "granitemoehybrid", "lfm2", "lfm2_moe",
                      "qwen3_5_moe", "nemotron_h", "kimi_linear_grouped"),
    [](const auto& golden) { return golden.param; });

TEST_P(GgufGolden, LogitsAreThoseOfTheFolderBitForBit) {
  const Folder folder;
  const auto file = folder / "m.gguf";
  const ModelSpec config = load_config(golden_dir(GetParam()));
  std::vector<BackendOptions> backends{{"ref", 1, "auto"}, {"cpu", 2, "auto"}};
  convert_to_gguf(golden_dir(GetParam()), file, {}, {config.dtype, {}});
  for (const BackendOptions& options : backends) {
    const auto backend = make_backend(options);
    EXPECT_EQ(logits_of(file, *backend), logits_of(golden_dir(GetParam()), *backend)) << options.device;
  }
  // In f32 every stored number is the same, and so is what the plain loops make of it; bf16 has a product of its own.
  if (config.dtype == DType::kBF16) return;
  convert_to_gguf(golden_dir(GetParam()), file, {}, {DType::kF32, {kReplace, 2, {}}});
  const auto ref = make_backend({"ref", 1, "auto"});
  EXPECT_EQ(logits_of(file, *ref), logits_of(golden_dir(GetParam()), *ref));
}

TEST_P(GgufGolden, ConfigIsThatOfTheFolder) {
  const Folder folder;
  convert_to_gguf(golden_dir(GetParam()), folder / "m.gguf", {}, {DType::kF16, {}});
  const ModelSpec want = load_config(golden_dir(GetParam()));
  const ModelSpec got = load_config(folder / "m.gguf");
  for (size_t i = 0; i < want.layers.size(); ++i) {
    LayerSpec layer = got.layers.at(i);
    const AttentionSpec& attention = want.layers[i].attention;
    EXPECT_FLOAT_EQ(layer.attention.scale, attention.scale);  // latents' is told by what it grows by
    layer.attention.scale = attention.scale;
    layer.attention.latent.pairs = attention.latent.pairs;  // how a folder has them
    EXPECT_EQ(layer, want.layers[i]) << i;
  }
  EXPECT_EQ(got.hidden, want.hidden);
  EXPECT_EQ(got.vocab, want.vocab);
  EXPECT_EQ(got.context, want.context);
  EXPECT_EQ(got.tied_embeddings, want.tied_embeddings);
  EXPECT_EQ(got.dtype, DType::kF16);
  EXPECT_EQ(static_cast<float>(got.norm_eps), static_cast<float>(want.norm_eps));
  ASSERT_EQ(got.ropes.size(), want.ropes.size());
  for (size_t i = 0; i < want.ropes.size(); ++i) {
    EXPECT_FLOAT_EQ(static_cast<float>(got.ropes[i].theta), static_cast<float>(want.ropes[i].theta));
    EXPECT_EQ(got.ropes[i].scaling, want.ropes[i].scaling);
  }
  EXPECT_EQ(parameter_count(got), parameter_count(want));
}

// The heads of a state's values lie in another order, so that the last product adds them up in another one.
TEST(GgufModel, TiledHeadsGiveTheSameToRounding) {
  const Folder folder;
  const auto file = folder / "m.gguf";
  convert_to_gguf(golden_dir("qwen3_5"), file, {}, {DType::kF32, {}});
  const ModelSpec got = load_config(file);
  EXPECT_TRUE(got.layers.front().recurrent.tiled());
  for (const char* device : {"ref", "cpu"}) {
    const auto backend = make_backend({device, 1, "auto", ActivationPrecision::kF32});
    EXPECT_LT(relative_error(logits_of(file, *backend), logits_of(golden_dir("qwen3_5"), *backend)), 1e-5) << device;
  }
  // That the order matters at all: the same file as if its heads were in ours.
  ModelSpec grouped = got;
  for (LayerSpec& layer : grouped.layers) layer.recurrent.value_heads = RecurrentSpec::Heads::kGrouped;
  const auto backend = make_backend({"ref", 1, "auto"});
  const auto other = make_decoder(grouped, Weights(file, tensors_of(got)), *backend, {64, {}});
  EXPECT_GT(relative_error(forward(*other, *backend, tokens_of(got)), logits_of(file, *backend)), 1e-3);
}

TEST(GgufModel, AFamilyWithoutAGgufFormIsNotWritten) {
  const Folder folder;
  const std::string error = error_of([&] {
    convert_to_gguf(golden_dir("opt"), folder / "m.gguf", {}, {DType::kF16, {}});
  });
  EXPECT_NE(error.find("GGUF has no architecture for opt models"), std::string::npos) << error;
  EXPECT_FALSE(std::filesystem::exists(folder / "m.gguf"));
}

TEST(GgufModel, Llama3RopeComesAsFactors) {
  const Folder folder;
  convert_to_gguf(golden_dir("rope_llama3"), folder / "m.gguf", {}, {DType::kF32, {}});
  EXPECT_EQ(load_config(folder / "m.gguf").ropes.at(0).scaling, RopeSpec::Scaling::kFactors);
  const auto backend = make_backend({"ref", 1, "auto"});
  const std::vector<float> want = logits_of(golden_dir("rope_llama3"), *backend);
  const std::vector<float> got = logits_of(folder / "m.gguf", *backend);
  EXPECT_LT(relative_error(got, want), 1e-6);  // a factor is rounded to float32
  // That they matter at all: the same file without them is another model.
  ModelSpec plain = load_config(folder / "m.gguf");
  plain.ropes.at(0).scaling = RopeSpec::Scaling::kNone;
  const auto other = make_decoder(plain, Weights(folder / "m.gguf", tensors_of(plain)), *backend, {64, {}});
  EXPECT_GT(relative_error(forward(*other, *backend, tokens_of(plain)), want), 1e-4);
}

TEST(GgufModel, QuantizedWeightsStayCloseToTheirOriginals) {
  const Folder folder;
  const ModelSpec shape = parse_shape("layers=2,hidden=256,ffn=512,heads=4,kv_heads=2,vocab=128,tied=0,dtype=f32");
  write_random_model(shape, folder / "hf", {});
  const auto backend = make_backend({"ref", 1, "auto"});
  const std::vector<float> want = logits_of(folder / "hf", *backend);
  double before = 1;
  struct Case {
    DType type;
    double at_most;
  };
  for (const Case& one : {Case{DType::kQ4_0, 0.3}, Case{DType::kQ4_K, 0.2}, Case{DType::kQ6_K, 0.05},
                          Case{DType::kQ8_0, 0.02}, Case{DType::kF16, 0.002}}) {
    convert_to_gguf(folder / "hf", folder / "m.gguf", {}, {one.type, {kReplace, 2, {}}});
    EXPECT_EQ(load_config(folder / "m.gguf").dtype, one.type);
    const double error = relative_error(logits_of(folder / "m.gguf", *backend), want);
    EXPECT_LT(error, one.at_most) << name_of(one.type);
    EXPECT_LT(error, before) << name_of(one.type);  // each type is better than the one before
    before = error;
  }
}

TEST(GgufModel, TypesFallBackWhereRowsAreNotWholeBlocks) {
  const auto converted = [](DType wanted, TensorRole role, int cols) {
    return converted_type(wanted, TensorSpec{.rows = 8, .cols = cols, .role = role});
  };
  EXPECT_EQ(converted(DType::kQ4_K, TensorRole::kUp, 512), DType::kQ4_K);
  EXPECT_EQ(converted(DType::kQ4_K, TensorRole::kUp, 96), DType::kQ8_0);
  EXPECT_EQ(converted(DType::kQ4_K, TensorRole::kUp, 50), DType::kF16);
  EXPECT_EQ(converted(DType::kQ4_K, TensorRole::kHead, 512), DType::kQ6_K);
  EXPECT_EQ(converted(DType::kQ4_K, TensorRole::kEmbedding, 512), DType::kQ6_K);
  EXPECT_EQ(converted(DType::kQ4_0, TensorRole::kHead, 512), DType::kQ4_0);
  EXPECT_EQ(converted(DType::kQ8_0, TensorRole::kFinalNorm, 0), DType::kF32);
}

TEST(GgufNames, RowsGoThereAndBack) {
  const InterleavedRows order{6};  // a head's rows 0 1 2 | 3 4 5 lie as 0 3 1 4 2 5
  const std::vector<int> second_head{6, 9, 7, 10, 8, 11};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(order.hugging_face_row(6 + i), second_head[static_cast<size_t>(i)]);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(order.gguf_row(order.hugging_face_row(i)), i);
}

// --- files that others write --------------------------------------------------------------------------------------

// What a converted file holds, to be written again with changes.
struct Copy {
  explicit Copy(const std::filesystem::path& path) : model(path) {
    for (const auto& [key, value] : model.files().front().content.metadata) {
      if (const auto* number = std::get_if<std::uint64_t>(&value)) set(key, static_cast<std::uint32_t>(*number));
      if (const auto* number = std::get_if<double>(&value)) set(key, static_cast<float>(*number));
      if (const auto* text = std::get_if<std::string_view>(&value)) set(key, std::string(*text));
    }
    for (const auto& [name, tensor] : model.files().front().content.tensors) add(name, tensor, *tensor.dtype);
  }

  void set(std::string_view key, GgufOutValue value) {
    drop_key(key);
    keys.push_back({std::string(key), std::move(value)});
  }
  void drop_key(std::string_view key) {
    std::erase_if(keys, [&](const GgufOutKey& entry) { return entry.key == key; });
  }
  void drop_tensor(std::string_view name) {
    std::erase_if(tensors, [&](const GgufOutTensor& tensor) { return tensor.name == name; });
  }
  void add(std::string_view name, const GgufTensor& tensor, DType type) {
    drop_tensor(name);
    const int cols = static_cast<int>(tensor.shape.back());
    const int rows = tensor.shape.size() == 1 ? 1 : static_cast<int>(tensor.shape[0]);
    const HostWeight from{tensor.bytes, *tensor.dtype, rows, cols};
    tensors.push_back({std::string(name), tensor.shape, type, [from, type](std::int64_t row, std::byte* to) {
                         std::vector<float> values(static_cast<size_t>(from.cols));
                         read_row(from, static_cast<int>(row), values.data());
                         encode_row(type, values.data(), from.cols, to);
                         return true;
                       }});
  }
  void retype(std::string_view name, DType type) { add(name, *model.find(name), type); }
  void write(const std::filesystem::path& path) const { write_gguf(path, keys, tensors, {kReplace, 1, {}}); }

  GgufModel model;
  std::vector<GgufOutKey> keys;
  std::vector<GgufOutTensor> tensors;
};

class GgufOthers : public ::testing::Test {
 protected:
  GgufOthers() { convert_to_gguf(golden_dir("gqa"), folder_ / "m.gguf", {}, {DType::kF32, {}}); }

  std::string error_with(const std::function<void(Copy&)>& change) {
    Copy copy(folder_ / "m.gguf");
    change(copy);
    copy.write(folder_ / "other.gguf");
    return error_of([&] { load_model(folder_ / "other.gguf", *backend_, {64, {}}); });
  }
  void expect_error(const std::function<void(Copy&)>& change, std::string_view part) {
    const std::string error = error_with(change);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }

  Folder folder_;
  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 2, "auto"});
};

TEST_F(GgufOthers, MixedTypesInOneStackAreComputed) {
  Copy copy(folder_ / "m.gguf");
  copy.retype("blk.0.attn_v.weight", DType::kF16);
  copy.retype("blk.1.attn_k.weight", DType::kF16);
  copy.retype("blk.1.ffn_up.weight", DType::kF16);
  copy.write(folder_ / "mixed.gguf");
  const auto ref = make_backend({"ref", 1, "auto"});
  const std::vector<float> want = logits_of(folder_ / "mixed.gguf", *ref);
  EXPECT_LT(relative_error(logits_of(folder_ / "mixed.gguf", *backend_), want), 1e-5);
  const double to_f32 = relative_error(want, logits_of(folder_ / "m.gguf", *ref));
  EXPECT_GT(to_f32, 0);
  EXPECT_LT(to_f32, 5e-3);
}

TEST_F(GgufOthers, WhatIsMissingOrWrongIsNamed) {
  EXPECT_EQ(error_with([](Copy&) {}), "no error");
  expect_error([](Copy& c) { c.drop_key("llama.block_count"); }, "llama.block_count is missing");
  expect_error([](Copy& c) { c.drop_key("llama.attention.head_count"); }, "llama.attention.head_count is missing");
  expect_error([](Copy& c) { c.set("llama.block_count", std::string("2")); }, "llama.block_count is not an integer");
  expect_error([](Copy& c) { c.set("llama.block_count", std::uint32_t{3}); }, "'blk.2.");
  expect_error([](Copy& c) { c.set("llama.embedding_length", std::uint32_t{0}); }, "outside 1..");
  expect_error([](Copy& c) { c.set("llama.attention.head_count_kv", std::uint32_t{3}); }, "3 KV heads do not divide");
  expect_error([](Copy& c) { c.set("llama.rope.freq_base", -1.0F); }, "must be positive");
  expect_error([](Copy& c) { c.set("llama.rope.scaling.type", std::string("longrope")); },
               "there is no rope_factors_long.weight");
  EXPECT_EQ(error_with([](Copy& c) { c.set("llama.rope.dimension_count", std::uint32_t{8}); }), "no error");
  expect_error([](Copy& c) { c.set("llama.rope.dimension_count", std::uint32_t{18}); }, "outside 1..16");
  expect_error([](Copy& c) { c.set("llama.expert_count", std::uint32_t{8}); }, "expert_used_count is missing");
  expect_error([](Copy& c) { c.set("general.architecture", std::string("mamba")); }, "known are llama");
  expect_error([](Copy& c) { c.set("tokenizer.ggml.eos_token_id", std::uint32_t{101}); }, "outside 0..100");
  EXPECT_EQ(error_with([](Copy& c) { c.set("tokenizer.ggml.bos_token_id", std::uint32_t{101}); }), "no error");
  expect_error([](Copy& c) { c.drop_tensor("blk.1.ffn_down.weight"); }, "'blk.1.ffn_down.weight'");
  expect_error([](Copy& c) { c.drop_tensor("token_embd.weight"); }, "no table token_embd.weight");
  expect_error([](Copy& c) { c.set("split.count", std::uint32_t{2}); }, "one part of several");
}

TEST_F(GgufOthers, HeadCountsMayComeOnePerLayer) {
  EXPECT_EQ(error_with([](Copy& c) {
              c.set("llama.attention.head_count_kv", std::vector<std::int32_t>{2, 2});
            }),
            "no error");
  expect_error(
      [](Copy& c) {
        c.set("llama.attention.head_count_kv", std::vector<std::int32_t>{2, 1});
      },
      "differs between layers");
  expect_error([](Copy& c) { c.set("llama.attention.head_count_kv", std::vector<std::int32_t>{2}); },
               "has 1 entries for 2 layers");
}

TEST_F(GgufOthers, PartsOfASplitFileAreOneModel) {
  Copy first(folder_ / "m.gguf");
  Copy second(folder_ / "m.gguf");
  first.set("split.count", std::uint32_t{2});
  std::erase_if(first.tensors, [](const GgufOutTensor& t) { return t.name.starts_with("blk.1"); });
  std::erase_if(second.tensors, [](const GgufOutTensor& t) { return !t.name.starts_with("blk.1"); });
  std::filesystem::create_directory(folder_ / "parts");
  first.write(folder_ / "parts/m-00001-of-00002.gguf");
  EXPECT_NE(error_of([&] { GgufModel(folder_ / "parts/m-00001-of-00002.gguf"); }).find("cannot be opened"),
            std::string::npos);
  second.write(folder_ / "parts/m-00002-of-00002.gguf");
  const std::vector<float> want = logits_of(folder_ / "m.gguf", *backend_);
  EXPECT_EQ(logits_of(folder_ / "parts/m-00001-of-00002.gguf", *backend_), want);
  EXPECT_EQ(logits_of(folder_ / "parts", *backend_), want);  // a folder with one model
  EXPECT_NE(error_of([&] { GgufModel(folder_ / "parts/m-00002-of-00002.gguf"); }).find("name the first one"),
            std::string::npos);
  second.add("token_embd.weight", *second.model.find("token_embd.weight"), DType::kF32);
  second.write(folder_ / "parts/m-00002-of-00002.gguf");
  EXPECT_NE(error_of([&] { GgufModel(folder_ / "parts/m-00001-of-00002.gguf"); }).find("is in two parts"),
            std::string::npos);
}

TEST_F(GgufOthers, AFolderWithTwoModelsIsAmbiguous) {
  EXPECT_EQ(logits_of(folder_.path(), *backend_), logits_of(folder_ / "m.gguf", *backend_));
  std::filesystem::copy(folder_ / "m.gguf", folder_ / "n.gguf");
  EXPECT_NE(error_of([&] { load_config(folder_.path()); }).find("several models"), std::string::npos);
}

// --- writing ------------------------------------------------------------------------------------------------------

TEST_F(GgufOthers, AFileIsReplacedOnlyWhenAsked) {
  const auto file = folder_ / "m.gguf";
  EXPECT_NE(error_of([&] {
              convert_to_gguf(golden_dir("gqa"), file, {}, {DType::kF16, {}});
            }).find("--force"),
            std::string::npos);
  EXPECT_EQ(load_config(file).dtype, DType::kF32);
  convert_to_gguf(golden_dir("gqa"), file, {}, {DType::kF16, {kReplace, 1, {}}});
  EXPECT_EQ(load_config(file).dtype, DType::kF16);
  EXPECT_NE(error_of([&] {
              convert_to_gguf(golden_dir("gqa"), folder_ / "x", {}, {DType::kQ5_1, {}});
            }).find("read and not written"),
            std::string::npos);
}

TEST_F(GgufOthers, NumbersThatDoNotFitLeaveTheOldFileAlone) {
  const auto file = folder_ / "m.gguf";
  const auto before = std::filesystem::file_size(file);
  const GgufOutTensor bad{"t", {4, 32}, DType::kF16, [](std::int64_t row, std::byte*) { return row != 3; }};
  EXPECT_NE(error_of([&] {
              write_gguf(file, {}, {&bad, 1}, {kReplace, 2, {}});
            }).find("f16 cannot hold"),
            std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(file), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);  // nothing is left beside it
  EXPECT_NE(error_of([&] { write_gguf(folder_ / "no/such.gguf", {}, {}, {}); }).find("cannot be created"),
            std::string::npos);
}

}  // namespace
}  // namespace kvasir::testing
