// A model as data: its text names every constant, its tensors are counted from one list, and what a backend has no
// kernel for is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>

#include "backend/forwarding_backend.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "base/json_reader.h"
#include "base/mmap_file.h"
#include "engine/embedder.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/families/family.h"
#include "model/known_models.h"
#include "model/random_model.h"
#include "model/random_weights.h"
#include "model/tensors.h"
#include "model/vector_head.h"
#include "model/weights.h"
#include "support/fixtures.h"
#include "support/forward.h"
#include "support/random_data.h"
#include "support/source_dir.h"

namespace kvasir::testing {
namespace {

constexpr const char* kSmall = "layers=2,hidden=32,ffn=48,heads=4,kv_heads=2,head_dim=8,vocab=50,dtype=f32";

std::string error_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Spec, EveryConstantOfALayerIsInItsText) {
  const ModelSpec plain = parse_shape(kSmall);
  const std::vector<std::function<void(ModelSpec&)>> changes{
      [](ModelSpec& s) { s.hidden = 33; },
      [](ModelSpec& s) { s.vocab = 51; },
      [](ModelSpec& s) { s.norm_eps = 2e-5; },
      [](ModelSpec& s) { s.tied_embeddings = true; },
      [](ModelSpec& s) { s.layers[1].attention.heads = 2; },
      [](ModelSpec& s) { s.layers[1].attention.kv.heads = 1; },
      [](ModelSpec& s) { s.layers[1].attention.kv.k_dim = 16; },
      [](ModelSpec& s) { s.layers[1].attention.kv.v_dim = 16; },
      [](ModelSpec& s) { s.layers[1].attention.window = 7; },
      [](ModelSpec& s) { s.layers[1].attention.rope = kNoRope; },
      [](ModelSpec& s) { s.layers[1].attention.scale *= 2; },
      [](ModelSpec& s) { s.layers[1].attention.qk_norm = AttentionSpec::QkNorm::kPerHead; },
      [](ModelSpec& s) { s.layers[1].attention.qkv_bias = true; },
      [](ModelSpec& s) { s.layers[1].attention.out_bias = true; },
      [](ModelSpec& s) { s.layers[1].attention.kv.v_in_k = 0; },
      [](ModelSpec& s) { s.layers[1].attention.softcap = 30; },
      [](ModelSpec& s) { s.layers[1].attention.sink_logits = true; },
      [](ModelSpec& s) { s.layers[1].attention.chunk = 7; },
      [](ModelSpec& s) { s.layers[1].attention.bias.kind = PositionBiasSpec::Kind::kAlibi; },
      [](ModelSpec& s) { s.layers[1].attention.bias.buckets = 32; },
      [](ModelSpec& s) { s.layers[1].attention.bias.most_distance = 128; },
      [](ModelSpec& s) { s.layers[1].attention.bias.reach = PositionBiasSpec::Reach::kBothWays; },
      [](ModelSpec& s) { s.layers[1].attention.mask = ScoreRule::Mask::kAll; },
      [](ModelSpec& s) { s.layers[1].mlp.width = 50; },
      [](ModelSpec& s) { s.layers[1].mlp.bias = true; },
      [](ModelSpec& s) { s.layers.pop_back(); },
      [](ModelSpec& s) { s.ropes[0].scaling = RopeSpec::Scaling::kLinear; },
      [](ModelSpec& s) { s.ropes[0].theta = 10001; },
      [](ModelSpec& s) { s.ropes[0].factor = 2; },
      [](ModelSpec& s) { s.ropes[0].low_freq_factor = 2; },
      [](ModelSpec& s) { s.ropes[0].high_freq_factor = 5; },
      [](ModelSpec& s) { s.ropes[0].original_context = 4096; },
      [](ModelSpec& s) { s.ropes[0].factors = {1.5F}; },
      [](ModelSpec& s) { s.ropes[0].rotated = 0.5; },
      [](ModelSpec& s) { s.ropes[0].beta_fast = 31; },
      [](ModelSpec& s) { s.ropes[0].beta_slow = 2; },
      [](ModelSpec& s) { s.ropes[0].whole_pairs = false; },
      [](ModelSpec& s) { s.ropes[0].magnitude = 1.1; },
      [](ModelSpec& s) { s.layers[1].attention.qk_norm = AttentionSpec::QkNorm::kWhole; },
      [](ModelSpec& s) { s.layers[1].mlp.moe.experts = 4; },
      [](ModelSpec& s) { s.layers[1].mlp.moe.used = 2; },
      [](ModelSpec& s) { s.layers[1].mlp.moe.score = RouterRule::Score::kSigmoid; },
      [](ModelSpec& s) { s.layers[1].mlp.moe.normalized = true; },
      [](ModelSpec& s) { s.layers[1].mlp.moe.scale = 2; },
      [](ModelSpec& s) { s.layers[1].mlp.moe.choice_bias = true; },
      [](ModelSpec& s) { s.layers[1].attention.of_source = true; },
      [](ModelSpec& s) { s.encoder.push_back(s); },
  };
  std::set<std::string> texts{to_text(plain)};
  for (size_t i = 0; i < changes.size(); ++i) {
    ModelSpec changed = plain;
    changes[i](changed);
    EXPECT_TRUE(texts.insert(to_text(changed)).second) << "change " << i;
  }
}

TEST(Spec, FamiliesThatComputeTheSameHaveOneText) {
  const std::string shape = std::string(kSmall) + ",arch=";
  EXPECT_EQ(to_text(parse_shape(shape + "llama")), to_text(parse_shape(shape + "mistral")));
  EXPECT_NE(to_text(parse_shape(shape + "llama")), to_text(parse_shape(shape + "qwen3")));
}

// What a model makes of these: logits, or of an encoder, which has none, the text's vector.
std::vector<float> made_of(Model& model, Backend& backend, const std::vector<TokenId>& tokens) {
  if (!model.config().encodes()) return forward(model, backend, tokens);
  ModelSpec spec = model.config();
  spec.vectors = {VectorSpec::Pooling::kMean};
  Embedder embedder(backend, model, 0);
  const VectorHead head("", spec);
  const Embedder::Text text{tokens, {}, &head};
  return embedder.run({&text, 1}).front();
}

// A random model of it is read as it was written: config.json, and every tensor that the family names.
void expect_read_as_written(const ModelSpec& spec, const RandomModelOptions& options, Backend& backend) {
  const std::vector<TokenId> tokens{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4};
  const auto folder = std::filesystem::temp_directory_path() / ("kvasir_spec_test_" + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  write_random_model(spec, folder, options);
  EXPECT_EQ(to_text(load_config(folder)), to_text(spec));
  const auto made = make_random_model(spec, backend, {}, options.seed);
  const auto loaded = load_model(folder, backend, {});
  EXPECT_EQ(made_of(*loaded, backend, tokens), made_of(*made, backend, tokens));
  std::filesystem::remove_all(folder);
}

TEST(Spec, ARandomModelOfAShapeIsReadAsItWasWritten) {
  const auto backend = make_backend({"cpu", 2, "auto"});
  for (const std::string arch : {"llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "olmoe"}) {
    for (const char* window : {"", ",window=9"}) {
      if ((arch == "llama" || arch == "olmoe") && *window != 0) continue;  // whose configs have no windows
      const bool experts = family_named(arch, "test").experts;
      const std::string shape =
          std::string(kSmall) + ",arch=" + arch + window + (experts ? ",experts=5,used_experts=2" : "");
      SCOPED_TRACE(shape);
      expect_read_as_written(parse_shape(shape), {}, *backend);
    }
  }
  const ModelSpec gemma = parse_shape(std::string(kSmall) + ",arch=gemma2");
  EXPECT_NE(error_of([&] { write_random_model(gemma, "/nowhere", {}); }).find("kvasir synth --config"),
            std::string::npos);
}

TEST(Spec, ARandomModelOfEachFamilysConfigIsReadAsItWasWritten) {
  const auto backend = make_backend({"cpu", 2, "auto"});
  std::set<std::string_view> tried;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/model/fixtures")) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    SCOPED_TRACE(entry.path().filename());
    const MmapFile file(entry.path() / "config.json");
    RandomModelOptions options;
    options.config = std::string(file.text());
    if (!family_runs(entry.path())) continue;
    const ModelSpec spec = load_config(entry.path());
    tried.insert(spec.family_name());
    expect_read_as_written(spec, options, *backend);
  }
  for (const Family* family : families()) {
    EXPECT_TRUE(!family->not_yet.empty() || tried.contains(family->name)) << family->name;
  }
}

class NarrowBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  BackendLimits limits() const override { return {64}; }
};

TEST(Spec, WhatABackendHasNoKernelForIsAnErrorOfOneLine) {
  NarrowBackend backend(make_backend({"ref", 1, "auto"}));
  const auto refused = [&backend](const char* shape) {
    return error_of([&] { make_random_model(parse_shape(shape), backend, {}, 1); });
  };
  EXPECT_EQ(refused(kSmall), "no error");
  const std::string wide = refused("layers=1,hidden=40,ffn=8,heads=2,kv_heads=1,head_dim=66,vocab=9,dtype=f32");
  EXPECT_NE(wide.find("head_dim is 66"), std::string::npos) << wide;
  EXPECT_NE(wide.find("at most 64"), std::string::npos) << wide;
  EXPECT_EQ(wide.find('\n'), std::string::npos) << wide;
}

TEST(Spec, AnEncodersLayerIsAnErrorOfOneLine) {
  const auto backend = make_backend({"ref", 1, "auto"});
  ModelSpec encoder = parse_shape(kSmall);
  encoder.layers[1].attention.mask = ScoreRule::Mask::kAll;
  const std::string error = error_of([&] { make_random_model(encoder, *backend, {}, 1); });
  EXPECT_NE(error.find("layer 1 looks at tokens that follow"), std::string::npos) << error;
}

// Heads far beyond the usual run wherever nobody says that they cannot.
TEST(Spec, ManyQueryHeadsAndWideHeadsRun) {
  for (const char* shape : {"layers=1,hidden=71,ffn=16,heads=71,kv_heads=1,head_dim=4,vocab=30,dtype=f32",
                            "layers=1,hidden=32,ffn=16,heads=2,kv_heads=1,head_dim=512,vocab=30,dtype=f32"}) {
    std::vector<float> want;
    for (const char* device : {"ref", "cpu"}) {
      const auto backend = make_backend({device, 2, "auto", ActivationPrecision::kF32});
      const auto model = make_random_model(parse_shape(shape), *backend, {}, 1);
      const std::vector<float> got = forward(*model, *backend, {1, 2, 3, 4, 5, 6, 7});
      if (want.empty()) want = got;
      EXPECT_LT(relative_error(got, want), 1e-5) << device << " " << shape;
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
