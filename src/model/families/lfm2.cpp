// LFM2, dense and with experts: most layers are a short convolution between two gates, and the others attention.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "model/families/family.h"

namespace kvasir {
namespace {

// What files call the size of the MLP is larger than it is, unless they say that it is not.
int adjusted_ffn(const JsonReader& in, int said) {
  if (!in.flag_or("block_auto_adjust_ff_dim", true)) return said;
  const auto multiple = config_integer(in, "block_multiple_of", {1, ShapeLimits::kFfn}, 256);
  const double times = positive_or(in, "block_ffn_dim_multiplier", 1);
  const auto size = static_cast<std::int64_t>(times * static_cast<double>(2 * std::int64_t{said} / 3));
  return static_cast<int>((size + multiple - 1) / multiple * multiple);
}

void read_lfm2_mixers(const JsonReader& in, DecoderConfig& config) {
  require_flag(in, "conv_bias", false);
  config.qk_norm = AttentionSpec::QkNorm::kPerHead;
  config.recurrent.kind = RecurrentSpec::Kind::kShortConv;
  config.recurrent.heads = 1;
  config.recurrent.v_dim = config.hidden;
  config.recurrent.conv_weights = static_cast<int>(config_integer(in, "conv_L_cache", {1, kMostConvWeights}, 3));
  std::vector<bool> attends(static_cast<size_t>(config.layers), false);
  if (const auto types = in.find("layer_types")) {
    if (types->items().size() != attends.size()) types->fail("has another number of entries than there are layers");
    size_t layer = 0;
    for (const JsonReader type : types->items()) {
      if (type.text() != "conv" && type.text() != "full_attention") type.fail("is neither conv nor full_attention");
      attends[layer++] = type.text() == "full_attention";
    }
  } else {
    for (const JsonReader layer : in.get("full_attn_idxs").items()) {
      attends[static_cast<size_t>(layer.integer({0, config.layers - 1}))] = true;
    }
  }
  for (int i = 0; i < config.layers; ++i) {
    if (!attends[static_cast<size_t>(i)]) config.recurrent_layers.push_back(i);
  }
}

void read_lfm2(const JsonReader& in, DecoderConfig& config) {
  read_lfm2_mixers(in, config);
  if (in.find("block_ff_dim")) config.ffn = static_cast<int>(in.get("block_ff_dim").integer({1, ShapeLimits::kFfn}));
  config.ffn = adjusted_ffn(in, config.ffn);
}

void read_lfm2_moe(const JsonReader& in, DecoderConfig& config) {
  read_lfm2_mixers(in, config);
  read_experts(in, "num_experts", "num_experts_per_tok", config);
  config.moe.score = RouterRule::Score::kSigmoid;
  config.moe.choice_bias = in.flag_or("use_expert_bias", true);
  config.moe.normalized = in.flag_or("norm_topk_prob", true);
  config.moe.scale = static_cast<float>(positive_or(in, "routed_scaling_factor", 1.0));
  config.expert_ffn = static_cast<int>(in.get("moe_intermediate_size").integer({1, ShapeLimits::kFfn}));
  const std::int64_t dense = config_integer(in, "num_dense_layers", {0, config.layers}, std::min(2, config.layers));
  for (int i = 0; i < dense; ++i) config.dense_layers.push_back(i);
}

constexpr ExpertNames kLfm2Experts{.router = "feed_forward.gate.weight",
                                   .choice = "feed_forward.expert_bias",
                                   .gate = "feed_forward.experts.{}.w1.weight",
                                   .up = "feed_forward.experts.{}.w3.weight",
                                   .down = "feed_forward.experts.{}.w2.weight"};
constexpr LayerNames kNames{.attention_norm = {"operator_norm", "attn_norm"},
                            .mlp_norm = {"ffn_norm", "ffn_norm"},
                            .up = {"feed_forward.w3", "ffn_up"},
                            .down = {"feed_forward.w2", "ffn_down"},
                            .out = {"self_attn.out_proj", "attn_output"},
                            .q_norm = {"self_attn.q_layernorm", "attn_q_norm"},
                            .k_norm = {"self_attn.k_layernorm", "attn_k_norm"},
                            .gate = {"feed_forward.w1", "ffn_gate"},
                            .final_norm = "model.embedding_norm"};

std::vector<TensorSpec> lfm2_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, kLfm2Experts, kNames);
  for (TensorSpec& tensor : out) {
    if (tensor.role == TensorRole::kFinalNorm) tensor.gguf = "token_embd_norm.weight";  // so called there
  }
  return out;
}

constexpr std::array<std::string_view, 2> kLfm2MoeKnown{"expert_gating_func", "leading_dense_block_count"};

void read_lfm2_gguf(const GgufReader& /*in*/, DecoderConfig& config) {
  config.qk_norm = AttentionSpec::QkNorm::kPerHead;
}

}  // namespace

extern constexpr Family kLfm2Family{
    .name = "lfm2",
    .gguf = {.architecture = "lfm2",
             .windows_need_pattern = false,
             .states = {GgufStates::Layers::kWithoutKvHeads, RecurrentSpec::Kind::kShortConv},
             .read = read_lfm2_gguf},
    .keys = {.norm_eps = "norm_eps"},
    .defaults = {.tied = true, .norm_eps = 1e-5, .rope_theta = 1e6},
    .read = read_lfm2,
    .spec = plain_decoder,
    .tensors = lfm2_tensors};

extern constexpr Family kLfm2MoeFamily{
    .name = "lfm2_moe",
    .gguf = {.architecture = "lfm2moe",
             .moe = {.score = RouterRule::Score::kSigmoid, .normalized = true},
             .windows_need_pattern = false,
             .states = {GgufStates::Layers::kWithoutKvHeads, RecurrentSpec::Kind::kShortConv},
             .known = kLfm2MoeKnown,
             .read = read_lfm2_gguf},
    .experts = true,
    .keys = {.norm_eps = "norm_eps"},
    .defaults = {.tied = true, .norm_eps = 1e-5, .rope_theta = 1e6},
    .read = read_lfm2_moe,
    .spec = plain_decoder,
    .tensors = lfm2_tensors};

}  // namespace kvasir
