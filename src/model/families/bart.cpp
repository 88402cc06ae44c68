// BART: an encoder-decoder with learned positions, biases everywhere, and norms behind each sum. A block of the
// decoder is two layers: one over the text, and one over the source, with the MLP.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "model/families/family.h"

namespace kvasir {
namespace {

constexpr LayerNames kBartEncoder{.attention_norm = {"self_attn_layer_norm"},
                                  .mlp_norm = {"final_layer_norm"},
                                  .up = {"fc1"},
                                  .down = {"fc2"},
                                  .q = {"self_attn.q_proj"},
                                  .k = {"self_attn.k_proj"},
                                  .v = {"self_attn.v_proj"},
                                  .out = {"self_attn.out_proj"},
                                  .layers = "model.encoder.layers",
                                  .embedding = "model.shared.weight",
                                  .positions = "model.encoder.embed_positions.weight"};

constexpr LayerNames bart_text_names() {
  LayerNames names = kBartEncoder;
  names.layers = "model.decoder.layers";
  names.positions = "model.decoder.embed_positions.weight";
  return names;
}

constexpr LayerNames bart_source_names() {
  LayerNames names = bart_text_names();
  names.attention_norm.name = "encoder_attn_layer_norm";
  names.q.name = "encoder_attn.q_proj";
  names.k.name = "encoder_attn.k_proj";
  names.v.name = "encoder_attn.v_proj";
  names.out.name = "encoder_attn.out_proj";
  return names;
}

constexpr int kBartFirstPosition = 2;  // rows before it are of no position

void read_bart(const JsonReader& in, DecoderConfig& config) {
  require_flag(in, "is_encoder_decoder", true);
  require_flag(in, "normalize_before", false);
  require_flag(in, "add_final_layer_norm", false);
  read_activation(in, "activation_function", Activation::kGelu, config);
  const auto size = [&](std::string_view key, std::int64_t most, int fallback) {
    return static_cast<int>(config_integer(in, key, {1, most}, fallback));
  };
  config.encoder = {size("encoder_layers", ShapeLimits::kLayers, config.layers),
                    size("encoder_attention_heads", ShapeLimits::kHeads, config.heads),
                    size("encoder_ffn_dim", ShapeLimits::kFfn, config.ffn)};
  if (config.hidden % config.encoder.heads != 0) in.fail_inside("encoder_attention_heads do not divide d_model");
  if (in.flag_or("scale_embedding", false)) config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.attention_bias = config.mlp_bias = true;
  config.norms = NormPlacement::kAfterSum;
  config.final_norm = false;
  config.plain_mlp = true;
  config.first_position = kBartFirstPosition;
  config.positions = static_cast<int>(std::min(config.context, ShapeLimits::kVocab));
  read_answer_start(in, config);
}

ModelSpec bart_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.ropes.clear();
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  spec.embedding_norm = true;
  for (LayerSpec& layer : spec.layers) {
    layer.attention.rope = kNoRope;
    layer.mlp.kind = MlpSpec::Kind::kPlain;
  }
  add_encoder(spec, config);
  spec.head_bias = true;
  return spec;
}

std::vector<TensorSpec> bart_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = spec.encodes() ? encoder_tensors(spec, kBartEncoder)
                                               : block_tensors(spec, bart_text_names(), bart_source_names());
  const std::string stack = spec.encodes() ? "model.encoder" : "model.decoder";
  for (const bool bias : {false, true}) {
    out.push_back({.name = stack + (bias ? ".layernorm_embedding.bias" : ".layernorm_embedding.weight"),
                   .rows = spec.hidden,
                   .role = TensorRole::kEmbeddingNorm,
                   .bias = bias});
  }
  for (TensorSpec& tensor : out) {
    if (tensor.role != TensorRole::kHead || !tensor.bias) continue;
    tensor.name = "final_logits_bias";  // a row of a matrix
    tensor.rows = 1;
    tensor.cols = spec.vocab;
  }
  return out;
}

constexpr ConfigKeys kBartKeys{.layers = "decoder_layers",
                               .hidden = "d_model",
                               .ffn = "decoder_ffn_dim",
                               .heads = "decoder_attention_heads",
                               .kv_heads = "",
                               .head_dim = "",
                               .norm_eps = ""};
constexpr ConfigDefaults kBartDefaults{.tied = true, .norm_eps = 1e-5};

}  // namespace

extern constexpr Family kBartFamily{.name = "bart",
                                    .keys = kBartKeys,
                                    .defaults = kBartDefaults,
                                    .read = read_bart,
                                    .spec = bart_spec,
                                    .tensors = bart_tensors};

}  // namespace kvasir
