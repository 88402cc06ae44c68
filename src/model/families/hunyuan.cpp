// Hunyuan v1 (dense, and A13B with experts): norms of query and key heads behind the rope, whose theta the config
// stretches.
#include <array>

#include "model/families/family.h"

namespace kvasir {
namespace {

constexpr LayerNames kHunyuanNames{.q_norm = {"self_attn.query_layernorm", "attn_q_norm"},
                                   .k_norm = {"self_attn.key_layernorm", "attn_k_norm"}};
constexpr ExpertNames kHunyuanExperts{.router = "mlp.gate.wg.weight",
                                      .shared_gate = {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
                                      .shared_up = {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
                                      .shared_down = {"mlp.shared_mlp.down_proj", "ffn_down_shexp"}};

void read_hunyuan(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  require_flag(in, "use_cla", false);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.mlp_bias = in.flag_or("mlp_bias", false);
}

// A number, or a list of one for each layer that all say the same.
std::int64_t same_in_all_layers(const JsonReader& in, std::string_view key, IntegerRange range,
                                std::int64_t fallback) {
  const std::optional<JsonReader> value = in.find(key);
  if (!value) return fallback;
  if (!value->is_array()) return value->integer(range);
  std::optional<std::int64_t> all;
  for (const JsonReader one : value->items()) {
    const std::int64_t number = one.integer(range);
    if (all.value_or(number) != number) value->fail("differs between layers, which is not supported");
    all = number;
  }
  return all.value_or(fallback);
}

void read_hunyuan_moe(const JsonReader& in, DecoderConfig& config) {
  read_hunyuan(in, config);
  config.moe.experts = static_cast<int>(same_in_all_layers(in, "num_experts", {1, ShapeLimits::kExperts}, 1));
  config.moe.used = static_cast<int>(same_in_all_layers(in, "moe_topk", {1, config.moe.experts}, 1));
  config.expert_ffn =
      static_cast<int>(same_in_all_layers(in, "moe_intermediate_size", {1, ShapeLimits::kFfn}, config.ffn));
  config.moe.normalized = true;
  config.moe.shared_width =
      config.ffn * static_cast<int>(same_in_all_layers(in, "num_shared_expert", {1, ShapeLimits::kExperts}, 1));
}

ModelSpec hunyuan_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.qk_norm = AttentionSpec::QkNorm::kPerHead;
    layer.attention.qk_norm_stage = AttentionSpec::NormStage::kAfterRope;
  }
  return spec;
}

std::vector<TensorSpec> hunyuan_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, kHunyuanExperts, kHunyuanNames);
}

constexpr std::array<std::string_view, 1> kHunyuanMoeKnown{"expert_shared_feed_forward_length"};
constexpr std::array<std::string_view, 2> kHunyuanRefused{"attn_output.bias", "ffn_up.bias"};

}  // namespace

extern constexpr Family kHunyuanFamily{.name = "hunyuan_v1_dense",
                                       .gguf = {.architecture = "hunyuan-dense", .refused = kHunyuanRefused},
                                       .defaults = {.norm_eps = 1e-5},
                                       .read = read_hunyuan,
                                       .spec = hunyuan_spec,
                                       .tensors = hunyuan_tensors};

extern constexpr Family kHunyuanMoeFamily{
    .name = "hunyuan_v1_moe",
    .gguf = {.architecture = "hunyuan-moe", .known = kHunyuanMoeKnown, .refused = kHunyuanRefused},
    .experts = true,
    .defaults = {.norm_eps = 1e-5},
    .read = read_hunyuan_moe,
    .spec = hunyuan_spec,
    .tensors = hunyuan_tensors};

}  // namespace kvasir
