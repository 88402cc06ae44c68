// Kimi-Linear: Kimi Delta Attention in three layers of four, whose states decay row by row, and latent attention that
// knows no positions in the others; experts behind sigmoids and an MLP beside them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"
#include "model/gguf/gguf_rope.h"

namespace kvasir {
namespace {

int kimi_size(const JsonReader& in, std::string_view key, std::int64_t most = ShapeLimits::kHeadDim) {
  return static_cast<int>(in.get(key).integer({1, most}));
}

void read_kimi_latent(const JsonReader& in, DecoderConfig& config) {
  require_flag(in, "mla_use_nope", true);
  if (config.kv_heads != config.heads) in.fail_inside("num_key_value_heads is not num_attention_heads");
  LatentSpec& latent = config.latent;
  latent.kv_rank = kimi_size(in, "kv_lora_rank");
  latent.q_rank = in.find("q_lora_rank") ? kimi_size(in, "q_lora_rank", ShapeLimits::kHidden) : 0;
  latent.nope_dim = kimi_size(in, "qk_nope_head_dim");
  latent.rope_dim = kimi_size(in, "qk_rope_head_dim");  // which nothing turns
  latent.v_dim = kimi_size(in, "v_head_dim");
  latent.pairs = LatentSpec::Pairs::kNeighbours;  // in the order that GGUF's architecture reads, too
  config.attention_scale = 1 / std::sqrt(static_cast<double>(latent.q_dim()));
}

// Layers count from 1 there.
void read_kimi_layers(const JsonReader& linear, DecoderConfig& config) {
  std::vector<int> kinds(static_cast<size_t>(config.layers), 0);
  for (const char* key : {"kda_layers", "full_attn_layers"}) {
    for (const JsonReader layer : linear.get(key).items()) {
      const auto index = static_cast<size_t>(layer.integer({1, config.layers}) - 1);
      if (std::exchange(kinds[index], 1) != 0) layer.fail("is listed twice");
      (key == std::string_view("kda_layers") ? config.recurrent_layers : config.no_rope_layers)
          .push_back(static_cast<int>(index));
    }
  }
  const auto missing = std::ranges::find(kinds, 0);
  if (missing == kinds.end()) return;
  linear.fail_inside(
      fmt::format("layer {} is neither in kda_layers nor in full_attn_layers", missing - kinds.begin() + 1));
}

void read_kda(const JsonReader& linear, DecoderConfig& config) {
  for (const char* key : {"gate_lower_bound", "use_full_rank_gate"}) {
    if (linear.find(key)) linear.get(key).fail("is not supported: it is of another model than Kimi-Linear");
  }
  RecurrentSpec& recurrent = config.recurrent;
  recurrent.kind = RecurrentSpec::Kind::kKda;
  recurrent.heads = recurrent.k_heads = kimi_size(linear, "num_heads", ShapeLimits::kHeads);
  recurrent.k_dim = recurrent.v_dim = recurrent.gate_rank = kimi_size(linear, "head_dim", kMostStateRows);
  recurrent.conv_weights = kimi_size(linear, "short_conv_kernel_size", kMostConvWeights);
  read_kimi_layers(linear, config);
}

void read_kimi_experts(const JsonReader& in, DecoderConfig& config) {
  if (config_integer(in, "moe_layer_freq", {1, ShapeLimits::kLayers}, 1) != 1) {
    in.fail_inside("moe_layer_freq is not 1, which is not supported");
  }
  read_experts(in, "num_experts", "num_experts_per_token", config);
  MoeSpec& moe = config.moe;
  const std::string_view score = in.text_or("moe_router_activation_func", "sigmoid");
  if (score != "sigmoid" && score != "softmax") {
    in.get("moe_router_activation_func").fail(fmt::format("is '{}'", score.substr(0, 40)), "known: sigmoid, softmax");
  }
  moe.score = score == "sigmoid" ? RouterRule::Score::kSigmoid : RouterRule::Score::kSoftmax;
  moe.choice_bias = true;
  moe.normalized = in.flag_or("moe_renormalize", true);
  moe.scale = static_cast<float>(positive_or(in, "routed_scaling_factor", 1.0));
  if (in.flag_or("use_grouped_topk", true)) {
    moe.groups = static_cast<int>(config_integer(in, "num_expert_group", {1, moe.experts}, 1));
    moe.used_groups = static_cast<int>(config_integer(in, "topk_group", {1, moe.groups}, 1));
  }
  config.expert_ffn = kimi_size(in, "moe_intermediate_size", ShapeLimits::kFfn);
  const std::int64_t shared = config_integer(in, "num_shared_experts", {0, ShapeLimits::kExperts}, 0);
  if (shared * config.expert_ffn > ShapeLimits::kFfn) in.fail_inside("num_shared_experts is too large");
  moe.shared_width = static_cast<int>(shared) * config.expert_ffn;
  const std::int64_t dense = config_integer(in, "first_k_dense_replace", {0, config.layers}, 0);
  for (int i = 0; i < dense; ++i) config.dense_layers.push_back(i);
}

void read_kimi_linear(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  read_kimi_latent(in, config);
  read_kda(in.get("linear_attn_config"), config);
  if (in.find("num_experts")) read_kimi_experts(in, config);
}

constexpr std::int64_t kKimiContext = 1048576;

constexpr ExpertNames kKimiExperts{.router = "block_sparse_moe.gate.weight",
                                   .choice = "block_sparse_moe.gate.e_score_correction_bias",
                                   .gate = "block_sparse_moe.experts.{}.w1.weight",
                                   .up = "block_sparse_moe.experts.{}.w3.weight",
                                   .down = "block_sparse_moe.experts.{}.w2.weight",
                                   .shared_gate = {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp"},
                                   .shared_up = {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp"},
                                   .shared_down = {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp"}};

constexpr std::array<std::string_view, 6> kKimiKnown{"expert_gating_func",  "expert_weights_scale",
                                                     "expert_group_count",  "expert_group_used_count",
                                                     "expert_shared_count", "leading_dense_block_count"};
constexpr std::array<std::string_view, 1> kKimiNeeded{"output.weight"};

void read_kimi_gguf(const GgufReader& in, DecoderConfig& config) {
  read_latent_yarn(in, YarnMagnitude::kKept, config);
  for (int i = 0; i < config.layers; ++i) config.no_rope_layers.push_back(i);
}

std::vector<TensorSpec> kimi_linear_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, kKimiExperts);
}

}  // namespace

extern constexpr Family kKimiLinearFamily{
    .name = "kimi_linear",
    .gguf = {.architecture = "kimi-linear",
             .maybe_experts = true,
             .moe = {.score = RouterRule::Score::kSigmoid, .normalized = true},
             .states = {GgufStates::Layers::kWithoutKvHeads, RecurrentSpec::Kind::kKda},
             .known = kKimiKnown,
             .needed = kKimiNeeded,
             .read = read_kimi_gguf},
    .experts = true,
    .keys = {.head_dim = "", .context = "model_max_length"},
    .defaults = {.head_dim = 64, .context = kKimiContext},
    .read = read_kimi_linear,
    .spec = plain_decoder,
    .tensors = kimi_linear_tensors};

}  // namespace kvasir
