// GPT-NeoX (Pythia, Dolly, …): attention and MLP side by side, each behind a LayerNorm of its own; rope over a part
// of each head; q, k and v of a head together in one tensor.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr LayerNames kNeoxNames{.mlp_norm = {"post_attention_layernorm", "ffn_norm"},
                                .up = {"mlp.dense_h_to_4h", "ffn_up"},
                                .down = {"mlp.dense_4h_to_h", "ffn_down"},
                                .out = {"attention.dense", "attn_output"},
                                .layers = "gpt_neox.layers",
                                .embedding = "gpt_neox.embed_in.weight",
                                .final_norm = "gpt_neox.final_layer_norm",
                                .head = "embed_out.weight"};
constexpr double kNeoxRotated = 0.25;

void read_gpt_neox(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kGelu, config);
  config.attention_bias = in.flag_or("attention_bias", true);
  config.mlp_bias = true;
  config.rope.theta = positive_or(in, "rotary_emb_base", config.rope.theta);  // what older files call them
  config.rope.rotated = positive_or(in, "rotary_pct", config.rope.rotated);
  if (in.flag_or("use_parallel_residual", true)) config.norms = NormPlacement::kParallelApart;
}

constexpr std::array<std::string_view, 1> kNeoxKnown{"use_parallel_residual"};
constexpr std::array<std::string_view, 3> kNeoxNeeded{"output.weight", "attn_qkv.bias", "attn_output.bias"};

// Most of its models have the exact GELU, which llama.cpp approximates.
void read_gpt_neox_gguf(const GgufReader& in, DecoderConfig& config) {
  config.activation = Activation::kGelu;
  if (in.flag_if("use_parallel_residual").value_or(true)) config.norms = NormPlacement::kParallelApart;
}

ModelSpec gpt_neox_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  for (LayerSpec& layer : spec.layers) layer.mlp.kind = MlpSpec::Kind::kPlain;
  return spec;
}

std::vector<TensorSpec> gpt_neox_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, kNeoxNames);
  store_together(out, std::array{kQ, kK, kV},
                 {"attention.query_key_value.weight", "attention.query_key_value.bias", "attn_qkv"},
                 {spec.layers.front().attention.heads});
  return out;
}

}  // namespace

extern constexpr Family kGptNeoxFamily{.name = "gpt_neox",
                                       .gguf = {.architecture = "gptneox",
                                                .norm_eps = "attention.layer_norm_epsilon",
                                                .known = kNeoxKnown,
                                                .needed = kNeoxNeeded,
                                                .read = read_gpt_neox_gguf},
                                       .keys = {.kv_heads = "", .norm_eps = "layer_norm_eps"},
                                       .defaults = {.norm_eps = 1e-5, .rotated = kNeoxRotated},
                                       .read = read_gpt_neox,
                                       .spec = gpt_neox_spec,
                                       .tensors = gpt_neox_tensors};

}  // namespace kvasir
