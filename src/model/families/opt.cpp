// OPT: learned positions from the third row on, LayerNorms before or behind each branch, ReLU, and in the smallest
// one a table of embeddings that is narrower than the stream.
#include <algorithm>

#include "model/families/family.h"

namespace kvasir {
namespace {

constexpr LayerNames kOptNames{.attention_norm = {"self_attn_layer_norm", "attn_norm"},
                               .mlp_norm = {"final_layer_norm", "ffn_norm"},
                               .up = {"fc1", "ffn_up"},
                               .down = {"fc2", "ffn_down"},
                               .out = {"self_attn.out_proj", "attn_output"},
                               .layers = "model.decoder.layers",
                               .embedding = "model.decoder.embed_tokens.weight",
                               .positions = "model.decoder.embed_positions.weight",
                               .final_norm = "model.decoder.final_layer_norm"};
constexpr int kOptFirstPosition = 2;

void read_opt(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "activation_function", Activation::kRelu, config);
  config.norm_weights = in.flag_or("layer_norm_elementwise_affine", true);
  require_flag(in, "_remove_final_layer_norm", false);
  config.attention_bias = config.mlp_bias = in.flag_or("enable_bias", true);
  config.first_position = kOptFirstPosition;
  config.positions = static_cast<int>(std::min(config.context, ShapeLimits::kVocab));
  const std::int64_t width = config_integer(in, "word_embed_proj_dim", {1, ShapeLimits::kHidden}, config.hidden);
  if (width != config.hidden) config.embedding_width = static_cast<int>(width);
  if (in.flag_or("do_layer_norm_before", true)) return;
  config.norms = NormPlacement::kAfterSum;
  config.final_norm = false;
}

ModelSpec opt_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.ropes.clear();
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = spec.norm_weights;
  for (LayerSpec& layer : spec.layers) {
    layer.attention.rope = kNoRope;
    layer.mlp.kind = MlpSpec::Kind::kPlain;
  }
  return spec;
}

std::vector<TensorSpec> opt_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, kOptNames);
  if (spec.embedding_width == 0) return out;
  out.push_back({.name = "model.decoder.project_in.weight",
                 .rows = spec.hidden,
                 .cols = spec.embedding_width,
                 .role = TensorRole::kEmbeddingIn});
  out.push_back({.name = "model.decoder.project_out.weight",
                 .rows = spec.embedding_width,
                 .cols = spec.hidden,
                 .role = TensorRole::kEmbeddingOut});
  return out;
}

}  // namespace

extern constexpr Family kOptFamily{.name = "opt",
                                   .keys = {.ffn = "ffn_dim", .kv_heads = "", .head_dim = "", .norm_eps = ""},
                                   .defaults = {.tied = true, .norm_eps = 1e-5},
                                   .read = read_opt,
                                   .spec = opt_spec,
                                   .tensors = opt_tensors};

}  // namespace kvasir
