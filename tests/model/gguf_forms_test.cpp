// What each architecture of GGUF means where files leave things out, what it has no words for, and hostile values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "model/families/family.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_description.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

// The metadata that a model is written with, to be changed and read.
class Keys {
 public:
  explicit Keys(const std::string& golden)
      : spec_(load_config(golden_dir(golden))), said_(describe_as_gguf(spec_, golden)) {}

  Keys& drop(std::string_view name) {
    std::erase_if(said_.keys, [&](const GgufOutKey& entry) { return entry.key == full(name); });
    return *this;
  }
  Keys& set(std::string_view name, GgufOutValue value) {
    drop(name);
    said_.keys.push_back({full(name), std::move(value)});
    return *this;
  }
  const GgufOutValue* find(std::string_view name) const {
    const auto found = std::ranges::find(said_.keys, full(name), &GgufOutKey::key);
    return found == said_.keys.end() ? nullptr : &found->value;
  }
  const std::vector<std::string>& notes() const { return said_.notes; }
  const ModelSpec& spec() const { return spec_; }

  // As a file with these keys and without weights is read; its tensors are those of so many layers.
  ModelSpec read(int layers = 0) const {
    ModelSpec shape = spec_;
    if (layers > 0) shape.layers.resize(static_cast<size_t>(layers), shape.layers.front());
    std::vector<GgufOutTensor> tensors;
    for (const TensorSpec& tensor : tensors_of(shape)) {
      const bool seen = std::ranges::find(tensors, tensor.gguf, &GgufOutTensor::name) != tensors.end();
      if (seen || tensor.gguf.empty()) continue;  // one tensor may hold several of ours
      GgufOutTensor& out = tensors.emplace_back();
      out.name = tensor.gguf;
      if (tensor.expert == 0) out.shape.push_back(tensor.experts);
      out.shape.push_back(tensor.rows);
      if (!tensor.vector()) out.shape.push_back(tensor.cols);
      out.make_row = [bytes = row_bytes(DType::kF32, out.shape.back())](std::int64_t, std::byte* to) {
        std::fill_n(to, bytes, std::byte{});
        return true;
      };
    }
    const auto path =
        std::filesystem::temp_directory_path() / ("kvasir_forms_" + std::to_string(::getpid()) + ".gguf");
    GgufWriteOptions options;
    options.existing = GgufWriteOptions::Existing::kReplace;
    write_gguf(path, said_.keys, tensors, options);
    const GgufModel model(path);
    std::filesystem::remove(path);
    return gguf_config(model);
  }
  std::string error() const {
    try {
      read();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  std::string full(std::string_view name) const {
    return std::string(spec_.family->gguf.architecture) + "." + std::string(name);
  }

  ModelSpec spec_;
  GgufDescription said_;
};

std::vector<std::int64_t> windows_of(const ModelSpec& spec) {
  std::vector<std::int64_t> out;
  for (const LayerSpec& layer : spec.layers) out.push_back(layer.attention.window);
  return out;
}

std::string error_of(const ModelSpec& spec) {
  try {
    describe_as_gguf(spec, "here");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

constexpr const char* kWindow = "attention.sliding_window";
constexpr const char* kPattern = "attention.sliding_window_pattern";

TEST(GgufForms, WhatAnArchitectureHasNoWordsForIsRefused) {
  const auto expect = [](const ModelSpec& spec, std::string_view part) {
    EXPECT_NE(error_of(spec).find(part), std::string::npos) << error_of(spec);
  };
  expect(load_config(golden_dir("smollm3_listed")),
         "architecture smollm3 cannot say which of its layers have no rope");
  expect(load_config(golden_dir("falcon_rw")), "architecture falcon cannot say");           // ALiBi
  expect(load_config(golden_dir("llama4_interleaved")), "architecture llama4 cannot say");  // ropes, norms of heads
  expect(load_config(golden_dir("gpt2_untied")), "what its scores are scaled by");          // another in each layer
  ModelSpec parts_of_pairs = load_config(golden_dir("rope_yarn_tuned"));
  EXPECT_EQ(error_of(parts_of_pairs), "no error");  // no pair lies between its bounds
  parts_of_pairs.ropes.front().original_context = 4096;
  expect(parts_of_pairs, "architecture llama cannot say how its rope is scaled");
  ModelSpec two_windows = load_config(golden_dir("cohere2"));
  two_windows.layers[1].attention.window = 8;
  expect(two_windows, "which of its layers see how many tokens back");
  ModelSpec wider = load_config(golden_dir("qwen3_moe_dense_layers"));
  wider.layers[3].mlp.width += 8;
  expect(wider, "what its MLPs are made of");
}

TEST(GgufForms, ANoteNamesWhatLlamaCppDoesNotRead) {
  const auto notes = [](const std::string& golden) {
    const Keys keys(golden);
    std::string all;
    for (const std::string& note : keys.notes()) all += note + "\n";
    return all;
  };
  for (const char* plain : {"gqa", "biases", "rope_llama3", "qwen3", "mixtral", "olmoe", "olmo3", "exaone4",
                            "granite", "seed_oss", "smollm3", "cohere2", "starcoder2"}) {
    EXPECT_EQ(notes(plain), "") << plain;
  }
  EXPECT_NE(notes("mistral_window").find("does not read llama.attention.sliding_window,"), std::string::npos);
  EXPECT_NE(notes("cohere2_bias").find("sliding_window_pattern as a list"), std::string::npos);
  EXPECT_NE(notes("gemma2").find("does not read gemma2.attention.scale"), std::string::npos);
  EXPECT_NE(notes("olmoe_normalized").find("olmoe.expert_weights_norm"), std::string::npos);
  EXPECT_NE(notes("gemma3_softcap").find("does not read gemma3.hidden_activation"), std::string::npos);
  EXPECT_NE(notes("deepseek_v3").find("does not read deepseek2.rope.scaling.yarn_beta_fast"), std::string::npos);
  EXPECT_NE(notes("gpt_oss_full").find("does not load a file of architecture gpt-oss without output.weight"),
            std::string::npos);
  EXPECT_NE(notes("gemma4_moe").find("architecture gemma4 with attn_q.bias"), std::string::npos);
  EXPECT_NE(notes("qwen2_moe_dense_layers").find("qwen2moe without ffn_gate_inp.weight"), std::string::npos);
}

TEST(GgufForms, KeysThatArchitecturesInsistOnAreAlwaysWritten) {
  const Keys granite("granite");
  for (const char* key : {"attention.scale", "embedding_scale", "residual_scale", "logit_scale"}) {
    EXPECT_NE(granite.find(key), nullptr) << key;
  }
  EXPECT_EQ(std::get<float>(*granite.find("logit_scale")), 3.0F);  // which divides
  const Keys cohere("cohere2");
  EXPECT_EQ(std::get<float>(*cohere.find("logit_scale")), 0.25F);
  EXPECT_EQ(std::get<std::uint32_t>(*cohere.find(kWindow)), 7U);
  EXPECT_NE(cohere.find("attention.layer_norm_epsilon"), nullptr);
  EXPECT_EQ(cohere.find("attention.layer_norm_rms_epsilon"), nullptr);
  EXPECT_EQ(cohere.find("embedding_scale"), nullptr);
}

TEST(GgufForms, Gemma2MeansItsPublishedNumbers) {
  Keys keys("gemma2");
  for (const char* key :
       {kWindow, kPattern, "attention.scale", "attn_logit_softcapping", "final_logit_softcapping"}) {
    keys.drop(key);
  }
  const ModelSpec small = keys.read();
  EXPECT_EQ(windows_of(small), (std::vector<std::int64_t>{4096, 0, 4096, 0}));
  EXPECT_EQ(small.attention(0).softcap, 50.0F);
  EXPECT_EQ(small.logit_softcap, 30.0F);
  EXPECT_EQ(small.attention(0).scale, 0.25F);  // a head has 16 numbers
  const ModelSpec largest = keys.set("block_count", std::uint32_t{46}).read(46);
  EXPECT_EQ(largest.attention(0).scale, 1.0F / std::sqrt(10.0F));  // 40 numbers, 4 heads
}

TEST(GgufForms, Gemma3MeansItsPublishedNumbers) {
  Keys keys("gemma3");
  keys.drop(kPattern).drop("attention.scale").set("block_count", std::uint32_t{12});
  const ModelSpec spec = keys.read(12);
  EXPECT_EQ(windows_of(spec), (std::vector<std::int64_t>{9, 9, 9, 9, 9, 0, 9, 9, 9, 9, 9, 0}));
  EXPECT_EQ(spec.ropes.at(static_cast<size_t>(spec.attention(0).rope)).theta, 1e4);
  EXPECT_EQ(spec.ropes.at(static_cast<size_t>(spec.attention(5).rope)).theta, 1e6);
  EXPECT_EQ(windows_of(keys.drop(kWindow).read(12)), std::vector<std::int64_t>(12, 0));
}

TEST(GgufForms, OnlyTheLargestExaone4HasWindowsUnsaid) {
  Keys keys("exaone4");
  EXPECT_EQ(windows_of(keys.read()), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(keys.read().attention(1).rope, 0);
  const ModelSpec largest = keys.set("block_count", std::uint32_t{64}).read(64);
  EXPECT_EQ(largest.attention(0).window, 4096);
  EXPECT_EQ(largest.attention(0).rope, 0);
  EXPECT_EQ(largest.attention(3).window, 0);
  EXPECT_EQ(largest.attention(3).rope, kNoRope);
}

TEST(GgufForms, GptOssMeansItsPublishedLayers) {
  const ModelSpec spec = Keys("gpt_oss").drop(kPattern).set("block_count", std::uint32_t{4}).read(4);
  EXPECT_EQ(windows_of(spec), (std::vector<std::int64_t>{8, 0, 8, 0}));
  EXPECT_EQ(spec.layers[0].mlp.limit, 7.0F);
  EXPECT_EQ(spec.layers[0].mlp.moe.score, RouterRule::Score::kSoftmaxOfChosen);
  EXPECT_TRUE(spec.layers[0].mlp.moe.router_bias);
  EXPECT_TRUE(spec.attention(0).sink_logits);
  EXPECT_FALSE(spec.ropes.front().whole_pairs);
}

TEST(GgufForms, DeepSeekMeansASoftmaxUnsaid) {
  Keys keys("deepseek_v3");
  const ModelSpec said = keys.read();
  EXPECT_EQ(said.layers[1].mlp.moe.score, RouterRule::Score::kSigmoid);
  EXPECT_EQ(said.layers[1].mlp.moe.group_score, RouterRule::GroupScore::kTopTwo);
  EXPECT_EQ(said.layers[1].mlp.moe.shared_width, 12);
  EXPECT_TRUE(said.layers[1].mlp.moe.choice_bias);
  const ModelSpec unsaid = keys.drop("expert_gating_func").drop("expert_weights_norm").read();
  EXPECT_EQ(unsaid.layers[1].mlp.moe.score, RouterRule::Score::kSoftmax);
  EXPECT_EQ(unsaid.layers[1].mlp.moe.group_score, RouterRule::GroupScore::kBest);
  EXPECT_FALSE(unsaid.layers[1].mlp.moe.normalized);
}

TEST(GgufForms, YarnScalesTheScoresOfLatentsByItsMultiplier) {
  Keys keys("deepseek_v3");
  const float root = std::sqrt(12.0F);
  const auto grown = [](double all) { return static_cast<float>(0.1 * all * std::log(40.0) + 1); };
  EXPECT_EQ(std::get<float>(*keys.find("rope.scaling.yarn_log_multiplier")), 0.1F);
  EXPECT_FLOAT_EQ(keys.read().attention(0).scale, grown(1) * grown(1) / root);
  EXPECT_EQ(keys.read().ropes.front().magnitude, 1.0);
  keys.set("rope.scaling.yarn_log_multiplier", 0.0707F);
  EXPECT_FLOAT_EQ(keys.read().attention(0).scale, grown(0.707) * grown(0.707) / root);
  keys.drop("rope.scaling.yarn_log_multiplier").drop("rope.scaling.attn_factor");  // then both grow alike
  EXPECT_FLOAT_EQ(static_cast<float>(keys.read().ropes.front().magnitude), grown(1));
  EXPECT_FLOAT_EQ(keys.read().attention(0).scale, grown(1) * grown(1) / root);
}

TEST(GgufForms, Llama4MeansItsPublishedNumbers) {
  Keys keys("llama4");
  const ModelSpec spec =
      keys.drop(kWindow).drop("attention.temperature_scale").drop("attention.temperature_length").read();
  EXPECT_EQ(spec.attention(0).chunk, 8192);
  EXPECT_EQ(spec.attention(3).chunk, 0);
  EXPECT_EQ(spec.attention(0).qk_norm, AttentionSpec::QkNorm::kPerHead);
  const RopeSpec& still = spec.ropes.at(static_cast<size_t>(spec.attention(3).rope));
  EXPECT_EQ(still.rotated, 0);
  EXPECT_EQ(still.query_growth, 0.1);
  EXPECT_EQ(still.query_length, 8192);
  EXPECT_NE(keys.set(kWindow, std::uint32_t{0}).error().find("without chunks is not supported"), std::string::npos);
}

TEST(GgufForms, WhatNormsThereAreSaysWhereTheyStand) {
  EXPECT_EQ(Keys("stablelm").read().layers[0].norms, NormPlacement::kPre);
  EXPECT_EQ(Keys("stablelm_parallel").read().layers[0].norms, NormPlacement::kParallel);
  EXPECT_EQ(Keys("falcon_7b").read().layers[0].norms, NormPlacement::kParallel);
  EXPECT_EQ(Keys("falcon_40b").read().layers[0].norms, NormPlacement::kParallelApart);
  Keys neox("gpt_neox");
  EXPECT_TRUE(std::get<bool>(*neox.find("use_parallel_residual")));
  EXPECT_EQ(neox.set("use_parallel_residual", false).read().layers[0].norms, NormPlacement::kPre);
  EXPECT_EQ(neox.read().layers[0].mlp.activation, Activation::kGelu);
  EXPECT_EQ(neox.set("hidden_activation", std::string("relu")).read().layers[0].mlp.activation, Activation::kRelu);
}

TEST(GgufForms, Gemma4SaysSizesOfBothKindsOfLayers) {
  Keys keys("gemma4_dense_keqv");
  EXPECT_EQ(std::get<std::uint32_t>(*keys.find("attention.key_length")), 16U);
  EXPECT_EQ(std::get<std::uint32_t>(*keys.find("attention.key_length_swa")), 8U);
  EXPECT_EQ(std::get<GgufBools>(*keys.find(kPattern)).values, (std::vector<std::uint8_t>{1, 0, 1, 0}));
  EXPECT_EQ(std::get<std::vector<std::int32_t>>(*keys.find("attention.head_count_kv")),
            (std::vector<std::int32_t>{2, 1, 2, 1}));
  const std::string error = keys.set("attention.head_count_kv", std::vector<std::int32_t>{2, 1, 1, 1}).error();
  EXPECT_NE(error.find("differs between layers of one kind"), std::string::npos) << error;
  const Keys shared("gemma4_ple_shared");
  EXPECT_EQ(std::get<std::uint32_t>(*shared.find("attention.shared_kv_layers")), 2U);
  EXPECT_EQ(std::get<std::uint32_t>(*shared.find("embedding_length_per_layer_input")), 6U);
  EXPECT_EQ(std::get<std::vector<std::int32_t>>(*shared.find("feed_forward_length")),
            (std::vector<std::int32_t>{28, 28, 28, 56, 56}));
}

TEST(GgufForms, WindowsComeAsAPeriodOrAsAList) {
  Keys keys("cohere2");
  EXPECT_EQ(keys.find(kPattern), nullptr);  // what cohere2 means anyway
  EXPECT_EQ(windows_of(keys.read()), (std::vector<std::int64_t>{7, 7, 7, 0}));
  EXPECT_EQ(windows_of(keys.set(kPattern, std::uint32_t{2}).read()), (std::vector<std::int64_t>{7, 0, 7, 0}));
  EXPECT_EQ(windows_of(keys.set(kPattern, std::uint32_t{1}).read()), (std::vector<std::int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(windows_of(keys.set(kPattern, std::uint32_t{0}).read()), (std::vector<std::int64_t>{7, 7, 7, 7}));
  EXPECT_EQ(windows_of(keys.set(kPattern, GgufBools{{0, 1, 1, 0}}).read()), (std::vector<std::int64_t>{0, 7, 7, 0}));
  EXPECT_EQ(windows_of(keys.set(kPattern, std::vector<std::int32_t>{1, 0, 0, 0}).read()),
            (std::vector<std::int64_t>{7, 0, 0, 0}));
}

TEST(GgufForms, AWindowAloneMeansNothingWhereLlamaCppHasNone) {
  Keys keys("qwen3");
  EXPECT_EQ(windows_of(keys.set(kWindow, std::uint32_t{5}).read()), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(windows_of(keys.set(kPattern, std::uint32_t{0}).read()), (std::vector<std::int64_t>{5, 5}));
}

TEST(GgufForms, HostileValuesAreNamed) {
  const auto expect = [](const std::string& golden, const char* key, GgufOutValue value, std::string_view part) {
    const std::string error = Keys(golden).set(key, std::move(value)).error();
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect("cohere2", kPattern, GgufBools{{1, 0}}, "sliding_window_pattern has 2 entries for 4 layers");
  expect("cohere2", kPattern, std::vector<std::int32_t>{1, 0, 7, 0}, "is 7 for layer 2, outside 0..1");
  expect("cohere2", kPattern, std::vector<float>{1, 0, 0.5F, 0}, "is 0.5 for layer 2");
  expect("cohere2", kPattern, std::string("every"), "sliding_window_pattern is not an integer");
  expect("cohere2", kPattern, std::uint32_t{4097}, "outside 0..4096");
  expect("cohere2", kWindow, 7.0F, "sliding_window is not an integer");
  expect("cohere2", "logit_scale", std::uint32_t{1}, "logit_scale is not a floating-point number");
  expect("granite", "logit_scale", 0.0F, "must be positive");
  expect("granite", "residual_scale", -1.0F, "must be positive");
  expect("granite", "embedding_scale", std::numeric_limits<float>::infinity(), "must be a number");
  expect("gemma2", "attn_logit_softcapping", -2.0F, "must not be negative");
  expect("gemma2", "attn_logit_softcapping", std::numeric_limits<float>::quiet_NaN(), "must be a number");
  expect("gemma3", "rope.freq_base_swa", 0.0F, "must be positive");
  expect("qwen3_moe", "expert_gating_func", std::uint32_t{9}, "expert_gating_func is 9");
  expect("qwen3_moe", "expert_weights_norm", std::uint32_t{1}, "is not true or false");
  expect("qwen3_moe", "expert_weights_scale", -1.0F, "must not be negative");
  expect("qwen3_moe", "expert_count", std::uint32_t{1U << 20U}, "outside 0..4096");
  expect("deepseek_v3", "expert_group_used_count", std::uint32_t{4}, "outside 1..3");
  expect("deepseek_v3", "attention.key_length_mla", std::uint32_t{4}, "heads of 4 numbers, 4 of them rotated");
  expect("deepseek_v3", "rope.scaling.yarn_log_multiplier", -9.0F, "yarn_log_multiplier is -90");
  EXPECT_NE(Keys("deepseek_v3").drop("attention.kv_lora_rank").error().find("length are not supported"),
            std::string::npos);
  expect("deepseek_v3", "nextn_predict_layers", std::uint32_t{2}, "outside 0..1");
  expect("gemma4_ple_shared", "attention.shared_kv_layers", std::uint32_t{5}, "outside 0..4");
  expect("gemma4_ple_shared", "attention.shared_kv_layers", std::uint32_t{4}, "cannot read the keys of");
  expect("gpt_neox", "hidden_activation", std::string("mish"), "'mish', which is not supported");
  expect("olmo", "attention.clamp_kqv", -1.0F, "must be positive");
}

}  // namespace
}  // namespace kvasir::testing
