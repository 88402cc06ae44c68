// Qwen2-MoE and Qwen3-MoE: Qwen's attention, and experts in all layers but those that the config takes out. Qwen2-MoE
// has an MLP beside them, which a row takes a part of.
#include <algorithm>
#include <array>

#include "model/families/family.h"

namespace kvasir {

void read_sparse_steps(const JsonReader& in, DecoderConfig& config) {
  const std::int64_t step = config_integer(in, "decoder_sparse_step", {1, ShapeLimits::kLayers}, 1);
  std::vector<std::int64_t> listed;
  if (const auto layers = in.find("mlp_only_layers")) {
    for (const JsonReader layer : layers->items()) listed.push_back(layer.integer({0, config.layers - 1}));
  }
  for (int i = 0; i < config.layers; ++i) {
    if ((i + 1) % step != 0 || std::ranges::find(listed, i) != listed.end()) config.dense_layers.push_back(i);
  }
}

namespace {

void read_qwen2_moe(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  require_flag(in, "use_sliding_window", false);
  config.attention_bias = in.flag_or("qkv_bias", true);
  read_experts(in, "num_experts", "num_experts_per_tok", config);
  config.moe.normalized = in.flag_or("norm_topk_prob", false);
  config.expert_ffn = static_cast<int>(in.get("moe_intermediate_size").integer({1, ShapeLimits::kFfn}));
  config.moe.shared_width =
      static_cast<int>(in.get("shared_expert_intermediate_size").integer({1, ShapeLimits::kFfn}));
  config.moe.shared_gate = true;
  read_sparse_steps(in, config);
}

void read_qwen3_moe(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = in.flag_or("attention_bias", false);
  if (in.flag_or("use_sliding_window", false)) read_windows(in, kUsualWindow, {}, config);
  read_experts(in, in.find("num_experts") ? "num_experts" : "num_local_experts", "num_experts_per_tok", config);
  config.moe.normalized = in.flag_or("norm_topk_prob", false);
  config.expert_ffn = static_cast<int>(in.get("moe_intermediate_size").integer({1, ShapeLimits::kFfn}));
  read_sparse_steps(in, config);
}

ModelSpec qwen3_moe_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) layer.attention.qk_norm = AttentionSpec::QkNorm::kPerHead;
  return spec;
}

ModelSpec qwen2_moe_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) layer.attention.out_bias = false;
  return spec;
}

constexpr ExpertNames kQwen2Experts{.shared_gate = {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                                    .shared_up = {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                                    .shared_down = {"mlp.shared_expert.down_proj", "ffn_down_shexp"}};

constexpr std::array<std::string_view, 1> kQwen2MoeKnown{"expert_shared_feed_forward_length"};
constexpr std::array<std::string_view, 2> kQwen2MoeNeeded{"output.weight", "ffn_gate_inp.weight"};

std::vector<TensorSpec> qwen2_moe_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, kQwen2Experts);
}

std::vector<TensorSpec> qwen3_moe_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored);
}

}  // namespace

extern constexpr Family kQwen2MoeFamily{.name = "qwen2_moe",
                                        .gguf = {.architecture = "qwen2moe",
                                                 .moe = {.normalized = false},
                                                 .known = kQwen2MoeKnown,
                                                 .needed = kQwen2MoeNeeded},
                                        .experts = true,
                                        .known_norm_eps = 1e-6,
                                        .read = read_qwen2_moe,
                                        .spec = qwen2_moe_spec,
                                        .tensors = qwen2_moe_tensors};

extern constexpr Family kQwen3MoeFamily{.name = "qwen3_moe",
                                        .gguf = {.architecture = "qwen3moe"},
                                        .experts = true,
                                        .defaults = {.head_dim = 128},
                                        .known_norm_eps = 1e-6,
                                        .read = read_qwen3_moe,
                                        .spec = qwen3_moe_spec,
                                        .tensors = qwen3_moe_tensors};

}  // namespace kvasir
