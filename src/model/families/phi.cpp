// Phi-1, 1.5 and 2, and GPT-J: one LayerNorm feeds attention and MLP side by side, rope over a part of each head, an
// MLP without gates, a head with a bias. GPT-J's attention has no biases, and its rope's pairs lie side by side on
// disk.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr LayerNames kPhiNames{.up = {"mlp.fc1", "ffn_up"},
                               .down = {"mlp.fc2", "ffn_down"},
                               .out = {"self_attn.dense", "attn_output"},
                               .q_norm = {"self_attn.q_layernorm", "attn_q_norm"},
                               .k_norm = {"self_attn.k_layernorm", "attn_k_norm"},
                               .final_norm = "model.final_layernorm"};
constexpr LayerNames kGptjNames{.attention_norm = {"ln_1", "attn_norm"},
                                .up = {"mlp.fc_in", "ffn_up"},
                                .down = {"mlp.fc_out", "ffn_down"},
                                .q = {"attn.q_proj", "attn_q"},
                                .k = {"attn.k_proj", "attn_k"},
                                .v = {"attn.v_proj", "attn_v"},
                                .out = {"attn.out_proj", "attn_output"},
                                .layers = "transformer.h",
                                .embedding = "transformer.wte.weight",
                                .final_norm = "transformer.ln_f"};
constexpr double kPhiRotated = 0.5;
constexpr std::int64_t kGptjRotated = 64;

void read_phi(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kGeluTanh, config);
  config.attention_bias = config.mlp_bias = true;
  if (in.flag_or("qk_layernorm", false)) config.qk_norm = AttentionSpec::QkNorm::kPerHead;
}

void read_gptj(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "activation_function", Activation::kGeluTanh, config);
  config.mlp_bias = true;
  if (in.has_null("rotary_dim")) return;  // all of a head
  const std::int64_t rotated = config_integer(in, "rotary_dim", {2, config.head_dim}, kGptjRotated);
  config.rope.rotated = static_cast<double>(rotated) / config.head_dim;
}

constexpr std::array<std::string_view, 1> kPhiNeeded{"output.weight"};
constexpr std::array<std::string_view, 1> kPhiRefused{"attn_q_norm.weight"};

void read_phi_gguf(const GgufReader& in, DecoderConfig& config) {
  config.activation = Activation::kGeluTanh;
  if (in.has_tensor("blk.0.attn_q_norm.weight")) config.qk_norm = AttentionSpec::QkNorm::kPerHead;
}

ModelSpec phi_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  spec.head_bias = true;
  for (LayerSpec& layer : spec.layers) {
    layer.norms = NormPlacement::kParallel;
    layer.mlp.kind = MlpSpec::Kind::kPlain;
    layer.attention.qk_norm_kind = NormRule::Kind::kLayer;
    layer.attention.qk_norm_bias = true;
  }
  return spec;
}

std::vector<TensorSpec> phi_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, {}, kPhiNames);
}

std::vector<TensorSpec> gptj_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kInterleaved, {}, kGptjNames);
  for (TensorSpec& tensor : out) tensor.hf_rows = tensor.gguf_rows;
  return out;
}

}  // namespace

extern constexpr Family kPhiFamily{.name = "phi",
                                   .gguf = {.architecture = "phi2",
                                            .norm_eps = "attention.layer_norm_epsilon",
                                            .needed = kPhiNeeded,
                                            .refused = kPhiRefused,
                                            .read = read_phi_gguf},
                                   .keys = {.head_dim = "", .norm_eps = "layer_norm_eps"},
                                   .defaults = {.norm_eps = 1e-5, .rotated = kPhiRotated},
                                   .read = read_phi,
                                   .spec = phi_spec,
                                   .tensors = phi_tensors};

extern constexpr Family kGptjFamily{.name = "gptj",
                                    .keys = {.layers = "n_layer",
                                             .hidden = "n_embd",
                                             .ffn = "n_inner",
                                             .heads = "n_head",
                                             .kv_heads = "",
                                             .head_dim = "",
                                             .context = "n_positions",
                                             .norm_eps = "layer_norm_epsilon"},
                                    .defaults = {.norm_eps = 1e-5, .ffn_times_hidden = 4, .context = 2048},
                                    .read = read_gptj,
                                    .spec = phi_spec,
                                    .tensors = gptj_tensors};

}  // namespace kvasir
