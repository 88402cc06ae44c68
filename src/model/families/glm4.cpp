// GLM-4 (0414): norms around each branch, rope in pairs over half of each head, gate and up in one tensor.
// GLM-4.5, 4.6 and 4.7: experts behind a sigmoid, an MLP for all rows beside them, and norms of heads in the larger
// ones.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr double kGlmRotated = 0.5;
constexpr LayerNames kGlm4Names{.attention_post_norm = {"post_self_attn_layernorm", "post_attention_norm"},
                                .mlp_post_norm = {"post_mlp_layernorm", "post_ffw_norm"}};
constexpr LayerNames kGlm4MoeNames{.mlp_norm = {"post_attention_layernorm", "post_attention_norm"}};

void read_glm4(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.norms = NormPlacement::kSandwich;
}

void read_glm4_moe(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = in.flag_or("attention_bias", false);
  if (in.flag_or("use_qk_norm", false)) config.qk_norm = AttentionSpec::QkNorm::kPerHead;
  read_experts(in, "n_routed_experts", "num_experts_per_tok", config);
  read_sigmoid_routing(in, config);
}

void read_glm4_gguf(const GgufReader& /*in*/, DecoderConfig& config) { config.norms = NormPlacement::kSandwich; }

// Not every size has norms of heads.
void read_glm4_moe_gguf(const GgufReader& in, DecoderConfig& config) {
  if (in.has_tensor("blk.0.attn_q_norm.weight")) config.qk_norm = AttentionSpec::QkNorm::kPerHead;
}

ModelSpec glm4_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) layer.attention.out_bias = false;
  return spec;
}

std::vector<TensorSpec> glm4_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kInterleaved, {}, kGlm4Names);
  for (TensorSpec& tensor : out) tensor.hf_rows = tensor.gguf_rows;
  store_together(out, std::array{kGate, kUp}, {"mlp.gate_up_proj.weight", {}, "ffn_up"});
  return out;
}

std::vector<TensorSpec> glm4_moe_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, {}, kGlm4MoeNames);
}

constexpr std::array<std::string_view, 7> kGlm4MoeKnown{
    "expert_shared_count", "expert_gating_func",      "expert_weights_norm",      "expert_weights_scale",
    "expert_group_count",  "expert_group_used_count", "leading_dense_block_count"};

}  // namespace

extern constexpr Family kGlm4Family{.name = "glm4",
                                    .gguf = {.architecture = "glm4", .read = read_glm4_gguf},
                                    .defaults = {.norm_eps = 1e-5, .rotated = kGlmRotated},
                                    .read = read_glm4,
                                    .spec = glm4_spec,
                                    .tensors = glm4_tensors};

extern constexpr Family kGlm4MoeFamily{.name = "glm4_moe",
                                       .gguf = {.architecture = "glm4moe",
                                                .moe = {.score = RouterRule::Score::kSigmoid},
                                                .known = kGlm4MoeKnown,
                                                .read = read_glm4_moe_gguf},
                                       .experts = true,
                                       .defaults = {.norm_eps = 1e-5, .rotated = kGlmRotated},
                                       .next_n = kNextNLayer,
                                       .read = read_glm4_moe,
                                       .spec = glm4_spec,
                                       .tensors = glm4_moe_tensors};

}  // namespace kvasir
