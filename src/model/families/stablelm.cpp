// StableLM: Llama's layers with LayerNorms and a rope over a part of each head; attention and MLP may stand side by
// side behind one norm, and heads may have norms, each one of its own.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr LayerNames kStablelmNames{.q_norm = {"self_attn.q_layernorm.norms", "attn_q_norm"},
                                    .k_norm = {"self_attn.k_layernorm.norms", "attn_k_norm"}};
constexpr double kStablelmRotated = 0.25;

void read_stablelm(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("use_qkv_bias", false);
  if (in.flag_or("qk_layernorm", false)) config.qk_norm = AttentionSpec::QkNorm::kEachHead;
  if (in.flag_or("use_parallel_residual", false)) config.norms = NormPlacement::kParallel;
}

constexpr std::array<std::string_view, 1> kStablelmNeeded{"output.weight"};

// What norms there are says where they stand.
void read_stablelm_gguf(const GgufReader& in, DecoderConfig& config) {
  if (in.has_tensor("blk.0.attn_q_norm.weight")) config.qk_norm = AttentionSpec::QkNorm::kEachHead;
  if (!in.has_tensor("blk.0.ffn_norm.weight")) config.norms = NormPlacement::kParallel;
}

ModelSpec stablelm_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  for (LayerSpec& layer : spec.layers) {
    layer.attention.out_bias = false;
    layer.attention.qk_norm_kind = NormRule::Kind::kLayer;
  }
  return spec;
}

std::vector<TensorSpec> stablelm_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, {}, kStablelmNames);
}

}  // namespace

extern constexpr Family kStablelmFamily{.name = "stablelm",
                                        .gguf = {.architecture = "stablelm",
                                                 .norm_eps = "attention.layer_norm_epsilon",
                                                 .needed = kStablelmNeeded,
                                                 .read = read_stablelm_gguf},
                                        .keys = {.head_dim = "", .norm_eps = "layer_norm_eps"},
                                        .defaults = {.norm_eps = 1e-5, .rotated = kStablelmRotated},
                                        .read = read_stablelm,
                                        .spec = stablelm_spec,
                                        .tensors = stablelm_tensors};

}  // namespace kvasir
