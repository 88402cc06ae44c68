// GPT-2: learned positions, LayerNorms, an MLP without gates; matrices lie transposed in its files (Conv1D), q, k and
// v in one. GPT-BigCode (StarCoder, SantaCoder): the same layers, plain matrices, and all heads on one key and value.
#include <algorithm>
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr LayerNames kGpt2Names{.attention_norm = {"ln_1", "attn_norm"},
                                .mlp_norm = {"ln_2", "ffn_norm"},
                                .up = {"mlp.c_fc", "ffn_up"},
                                .down = {"mlp.c_proj", "ffn_down"},
                                .out = {"attn.c_proj", "attn_output"},
                                .layers = "transformer.h",
                                .embedding = "transformer.wte.weight",
                                .positions = "transformer.wpe.weight",
                                .final_norm = "transformer.ln_f"};
constexpr JointName kGpt2Qkv{"attn.c_attn.weight", "attn.c_attn.bias", "attn_qkv"};

void read_gpt2(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "activation_function", Activation::kGeluTanh, config);
  require_flag(in, "add_cross_attention", false);
  config.scale_by_layer = in.flag_or("scale_attn_by_inverse_layer_idx", false);
  if (!in.flag_or("scale_attn_weights", true)) config.attention_scale = 1;
}

void read_gpt_bigcode(const JsonReader& in, DecoderConfig& config) {
  read_gpt2(in, config);
  config.by_head = !in.flag_or("multi_query", true);
  config.kv_heads = config.by_head ? config.heads : 1;
}

void read_gpt2_gguf(const GgufReader& /*in*/, DecoderConfig& config) { config.activation = Activation::kGeluTanh; }

ModelSpec gpt2_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.ropes.clear();
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  spec.positions = static_cast<int>(std::min(config.context, ShapeLimits::kVocab));
  for (int i = 0; i < config.layers; ++i) {
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    layer.attention.rope = kNoRope;
    layer.attention.qkv_bias = layer.attention.out_bias = true;
    if (config.scale_by_layer) layer.attention.scale /= static_cast<float>(i + 1);
    layer.mlp.kind = MlpSpec::Kind::kPlain;
    layer.mlp.bias = true;
  }
  return spec;
}

std::vector<TensorSpec> gpt2_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, kGpt2Names);
  store_together(out, std::array{kQ, kK, kV}, kGpt2Qkv);
  store_transposed(out, std::array{kQ, kK, kV, kO, kUp, kDown});
  return out;
}

std::vector<TensorSpec> gpt_bigcode_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, kGpt2Names);
  const KvShape& kv = spec.layers.front().attention.kv;
  store_together(out, std::array{kQ, kK, kV}, kGpt2Qkv, {kv.heads});  // by head, unless all are on one
  return out;
}

constexpr ConfigKeys kGpt2Keys{.layers = "n_layer",
                               .hidden = "n_embd",
                               .ffn = "n_inner",
                               .heads = "n_head",
                               .kv_heads = "",
                               .head_dim = "",
                               .context = "n_positions",
                               .norm_eps = "layer_norm_epsilon"};
constexpr ConfigDefaults kGpt2Defaults{.tied = true, .norm_eps = 1e-5, .ffn_times_hidden = 4, .context = 1024};

}  // namespace

extern constexpr Family kGpt2Family{
    .name = "gpt2",
    .gguf = {.architecture = "gpt2", .norm_eps = "attention.layer_norm_epsilon", .read = read_gpt2_gguf},
    .keys = kGpt2Keys,
    .defaults = kGpt2Defaults,
    .read = read_gpt2,
    .spec = gpt2_spec,
    .tensors = gpt2_tensors};

extern constexpr Family kGptBigcodeFamily{
    .name = "gpt_bigcode",
    .gguf = {.architecture = "starcoder", .norm_eps = "attention.layer_norm_epsilon", .read = read_gpt2_gguf},
    .keys = kGpt2Keys,
    .defaults = kGpt2Defaults,
    .read = read_gpt_bigcode,
    .spec = gpt2_spec,
    .tensors = gpt_bigcode_tensors};

}  // namespace kvasir
