// Falcon: all heads on one key and value (7B), or groups of them (40B, 180B); attention and MLP side by side behind
// one LayerNorm, or two; rope or ALiBi. BLOOM: ALiBi, a norm of the embedding, and norms before each branch.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr LayerNames kFalconNames{.up = {"mlp.dense_h_to_4h", "ffn_up"},
                                  .down = {"mlp.dense_4h_to_h", "ffn_down"},
                                  .out = {"self_attention.dense", "attn_output"},
                                  .layers = "transformer.h",
                                  .embedding = "transformer.word_embeddings.weight",
                                  .final_norm = "transformer.ln_f"};
constexpr JointName kFalconQkv{"self_attention.query_key_value.weight", "self_attention.query_key_value.bias",
                               "attn_qkv"};

void read_falcon(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "activation", Activation::kGelu, config);
  config.attention_bias = config.mlp_bias = in.flag_or("bias", false);
  const bool grouped = in.flag_or("new_decoder_architecture", false);
  if (grouped) {
    config.kv_heads = static_cast<int>(config_integer(in, "num_kv_heads", {1, ShapeLimits::kHeads}, config.heads));
  } else {
    config.kv_heads = in.flag_or("multi_query", true) ? 1 : config.heads;
  }
  const bool two_norms = grouped && config_integer(in, "num_ln_in_parallel_attn", {1, 2}, 2) == 2;
  if (two_norms) {
    config.norms = NormPlacement::kParallelApart;
  } else if (grouped || in.flag_or("parallel_attn", true)) {
    config.norms = NormPlacement::kParallel;
  }
  if (!in.flag_or("alibi", false)) return;
  config.bias.kind = PositionBiasSpec::Kind::kAlibi;
  config.bias.slope_scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
}

void read_bloom(const JsonReader& in, DecoderConfig& config) {
  require_flag(in, "apply_residual_connection_post_layernorm", false);
  config.activation = Activation::kGeluTanh;
  config.attention_bias = config.mlp_bias = true;
  config.bias.kind = PositionBiasSpec::Kind::kAlibi;
}

constexpr std::array<std::string_view, 5> kFalconRefused{"attn_qkv.bias", "attn_output.bias", "ffn_norm.weight",
                                                         "ffn_up.bias", "ffn_down.bias"};

// Its models have the exact GELU, which llama.cpp approximates. What norms there are says where they stand.
void read_falcon_gguf(const GgufReader& in, DecoderConfig& config) {
  config.activation = Activation::kGelu;
  if (in.has_tensor("blk.0.attn_norm_2.weight")) {
    config.norms = NormPlacement::kParallelApart;
  } else if (!in.has_tensor("blk.0.ffn_norm.weight")) {
    config.norms = NormPlacement::kParallel;
  }
}

void read_bloom_gguf(const GgufReader& /*in*/, DecoderConfig& config) {
  config.activation = Activation::kGeluTanh;
  config.bias.kind = PositionBiasSpec::Kind::kAlibi;
}

ModelSpec falcon_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  const bool alibi = config.bias.kind == PositionBiasSpec::Kind::kAlibi;
  if (alibi) spec.ropes.clear();
  for (LayerSpec& layer : spec.layers) {
    if (alibi) layer.attention.rope = kNoRope;
    layer.mlp.kind = MlpSpec::Kind::kPlain;
  }
  return spec;
}

ModelSpec bloom_spec(const DecoderConfig& config) {
  ModelSpec spec = falcon_spec(config);
  spec.embedding_norm = true;
  return spec;
}

std::vector<TensorSpec> falcon_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  LayerNames names = kFalconNames;
  if (spec.layers.front().norms == NormPlacement::kParallelApart) {
    names.attention_norm = {"ln_attn", "attn_norm_2"};
    names.mlp_norm = {"ln_mlp", "attn_norm"};
  }
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, names);
  store_together(out, std::array{kQ, kK, kV}, kFalconQkv, {spec.layers.front().attention.kv.heads});
  return out;
}

std::vector<TensorSpec> bloom_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = falcon_tensors(spec);
  for (const char* part : {"weight", "bias"}) {
    out.push_back({.name = fmt::format("transformer.word_embeddings_layernorm.{}", part),
                   .gguf = fmt::format("token_embd_norm.{}", part),
                   .rows = spec.hidden,
                   .role = TensorRole::kEmbeddingNorm,
                   .bias = part == std::string_view("bias")});
  }
  return out;
}

}  // namespace

extern constexpr Family kFalconFamily{
    .name = "falcon",
    .gguf = {.architecture = "falcon",
             .norm_eps = "attention.layer_norm_epsilon",
             .refused = kFalconRefused,
             .read = read_falcon_gguf},
    .keys = {.ffn = "ffn_hidden_size", .kv_heads = "", .head_dim = "", .norm_eps = "layer_norm_epsilon"},
    .defaults = {.tied = true, .norm_eps = 1e-5, .ffn_times_hidden = 4, .context = 2048},
    .read = read_falcon,
    .spec = falcon_spec,
    .tensors = falcon_tensors};

extern constexpr Family kBloomFamily{
    .name = "bloom",
    .gguf = {.architecture = "bloom", .norm_eps = "attention.layer_norm_epsilon", .read = read_bloom_gguf},
    .keys = {.layers = "n_layer",
             .ffn = "n_inner",
             .heads = "n_head",
             .kv_heads = "",
             .head_dim = "",
             .context = "seq_length",
             .norm_eps = "layer_norm_epsilon"},
    .defaults = {.tied = true, .norm_eps = 1e-5, .ffn_times_hidden = 4, .context = 2048},
    .read = read_bloom,
    .spec = bloom_spec,
    .tensors = bloom_tensors};

}  // namespace kvasir
