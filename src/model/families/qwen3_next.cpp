// Qwen3-Next, and Qwen3.5 with what follows it (3.6, 3.8), dense and with experts: three layers of gated DeltaNet,
// then one of attention whose outputs are gated. What is projected for DeltaNet lies by key head in the older files.
#include <array>

#include "model/families/family.h"

namespace kvasir {
namespace {

constexpr std::int64_t kAttentionEvery = 4;

void read_layer_types(const JsonReader& in, DecoderConfig& config) {
  const std::int64_t every =
      config_integer(in, "full_attention_interval", {1, ShapeLimits::kLayers}, kAttentionEvery);
  const std::optional<JsonReader> types = in.find("layer_types");
  if (!types) {
    for (int i = 0; i < config.layers; ++i) {
      if ((i + 1) % every != 0) config.recurrent_layers.push_back(i);
    }
    return;
  }
  int layer = 0;
  for (const JsonReader type : types->items()) {
    const std::string_view name = type.text();
    if (name == "linear_attention") config.recurrent_layers.push_back(layer);
    if (name != "linear_attention" && name != "full_attention") type.fail("is neither linear nor full attention");
    ++layer;
  }
  if (layer != config.layers) types->fail("has another number of entries than there are layers");
}

void read_mixers(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = false;
  require_flag(in, "attention_bias", false);
  const auto size = [&in](const char* key, std::int64_t most, std::int64_t fallback) {
    return static_cast<int>(config_integer(in, key, {1, most}, fallback));
  };
  config.recurrent.kind = RecurrentSpec::Kind::kDeltaNet;
  config.recurrent.k_heads = size("linear_num_key_heads", ShapeLimits::kHeads, 16);
  config.recurrent.heads = size("linear_num_value_heads", ShapeLimits::kHeads, 32);
  config.recurrent.k_dim = size("linear_key_head_dim", ShapeLimits::kHeadDim, 128);
  config.recurrent.v_dim = size("linear_value_head_dim", ShapeLimits::kHeadDim, 128);
  config.recurrent.conv_weights = size("linear_conv_kernel_dim", kMostConvWeights, 4);
  read_layer_types(in, config);
}

void read_experts_and_shared(const JsonReader& in, DecoderConfig& config) {
  read_mixers(in, config);
  read_experts(in, "num_experts", "num_experts_per_tok", config);
  config.moe.normalized = in.flag_or("norm_topk_prob", true);
  config.expert_ffn = static_cast<int>(in.get("moe_intermediate_size").integer({1, ShapeLimits::kFfn}));
  config.moe.shared_width =
      static_cast<int>(in.get("shared_expert_intermediate_size").integer({1, ShapeLimits::kFfn}));
  config.moe.shared_gate = true;
}

void read_qwen3_next(const JsonReader& in, DecoderConfig& config) {
  read_experts_and_shared(in, config);
  config.recurrent.packing = RecurrentSpec::Packing::kByKeyHead;
  read_sparse_steps(in, config);
}

ModelSpec hybrid_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) {
    if (layer.attention.none()) continue;
    layer.attention.qk_norm = AttentionSpec::QkNorm::kPerHead;
    layer.attention.out_gate = true;
  }
  return spec;
}

constexpr ExpertNames kExperts{.shared_gate = {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                               .shared_up = {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                               .shared_down = {"mlp.shared_expert.down_proj", "ffn_down_shexp"}};

constexpr LayerNames kNames{.mlp_norm = {"post_attention_layernorm", "post_attention_norm"}};

constexpr GgufStates kByPart{GgufStates::Layers::kByInterval, RecurrentSpec::Kind::kDeltaNet,
                             RecurrentSpec::Packing::kByPart, RecurrentSpec::Heads::kTiled};
constexpr GgufStates kByKeyHead{GgufStates::Layers::kByInterval, RecurrentSpec::Kind::kDeltaNet,
                                RecurrentSpec::Packing::kByKeyHead, RecurrentSpec::Heads::kGrouped};
constexpr std::array<std::string_view, 2> kGgufKnown{"rope.dimension_sections", "expert_shared_feed_forward_length"};
constexpr std::span<const std::string_view> kNextKnown = std::span(kGgufKnown).subspan<1>();

// Norms are stored less one, but for those of heads of a state.
std::vector<TensorSpec> hybrid_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, kExperts, kNames);
  for (TensorSpec& tensor : out) {
    for (const TensorRole norm : {kAttentionNorm, kMlpNorm, kFinalNorm, kQNorm, kKNorm}) {
      if (tensor.role == norm) tensor.offset = 1.0F;
    }
  }
  return out;
}

std::vector<TensorSpec> stacked_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = hybrid_tensors(spec);
  for (const TensorRole role : {kGate, kUp}) store_stacked(out, role, "mlp.experts.gate_up_proj");
  store_stacked(out, kDown, "mlp.experts.down_proj");
  store_together(out, std::array{kGate, kUp}, {"mlp.experts.gate_up_proj"}, {.of = JointRows::Of::kExperts});
  return out;
}

constexpr NextNForm kNextN{.layer = "mtp.layers.0",
                           .ends = "mtp",
                           .embedding_norm = "pre_fc_norm_embedding",
                           .given_norm = "pre_fc_norm_hidden",
                           .join = "fc",
                           .final_norm = "norm",
                           .feeds = DraftHeadSpec::Feeds::kNormed};

constexpr ConfigDefaults kDefaults{.head_dim = 256, .rope_theta = 10000.0, .rotated = 0.25};

}  // namespace

extern constexpr Family kQwen3NextFamily{
    .name = "qwen3_next",
    .gguf = {.architecture = "qwen3next", .states = kByKeyHead, .known = kNextKnown},
    .experts = true,
    .defaults = kDefaults,
    .known_norm_eps = 1e-6,
    .next_n = kNextN,
    .read = read_qwen3_next,
    .spec = hybrid_spec,
    .tensors = hybrid_tensors};

extern constexpr Family kQwen35Family{.name = "qwen3_5_text",
                                      .also = "qwen3_5",  // the multimodal wrapper around it
                                      .gguf = {.architecture = "qwen35", .states = kByPart, .known = kGgufKnown},
                                      .defaults = kDefaults,
                                      .known_norm_eps = 1e-6,
                                      .next_n = kNextN,
                                      .read = read_mixers,
                                      .spec = hybrid_spec,
                                      .tensors = hybrid_tensors};

extern constexpr Family kQwen35MoeFamily{
    .name = "qwen3_5_moe_text",
    .also = "qwen3_5_moe",
    .gguf = {.architecture = "qwen35moe", .states = kByPart, .known = kGgufKnown},
    .experts = true,
    .defaults = {.head_dim = 256, .ffn_times_hidden = 4, .rotated = 0.25},
    .known_norm_eps = 1e-6,
    .next_n = kNextN,
    .read = read_experts_and_shared,
    .spec = hybrid_spec,
    .tensors = stacked_tensors};

}  // namespace kvasir
