// T5, Flan-T5 and mT5: encoder-decoders with learned biases of scores by distance, RMS norms, no biases of products
// and scores that are not scaled. UMT5: the same with such biases in each layer. A block of the decoder is two
// layers: one over the text, and one over the source, with the MLP.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {

extern const Family kUmt5Family;

namespace {

constexpr LayerNames kT5Encoder{.attention_norm = {"layer.0.layer_norm", "attn_norm"},
                                .mlp_norm = {"layer.1.layer_norm", "ffn_norm"},
                                .up = {"layer.1.DenseReluDense.wi_1", "ffn_up"},
                                .down = {"layer.1.DenseReluDense.wo", "ffn_down"},
                                .q = {"layer.0.SelfAttention.q", "attn_q"},
                                .k = {"layer.0.SelfAttention.k", "attn_k"},
                                .v = {"layer.0.SelfAttention.v", "attn_v"},
                                .out = {"layer.0.SelfAttention.o", "attn_o"},
                                .gate = {"layer.1.DenseReluDense.wi_0", "ffn_gate"},
                                .relative_bias = {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
                                .layers = "encoder.block",
                                .gguf_list = "enc",
                                .embedding = "shared.weight",
                                .final_norm = "encoder.final_layer_norm"};

constexpr LayerNames t5_text_names() {
  LayerNames names = kT5Encoder;
  names.layers = "decoder.block";
  names.gguf_list = "dec";
  names.final_norm = "decoder.final_layer_norm";
  return names;
}

constexpr LayerNames t5_source_names() {
  LayerNames names = t5_text_names();
  names.attention_norm = {"layer.1.layer_norm", "cross_attn_norm"};
  names.q = {"layer.1.EncDecAttention.q", "cross_attn_q"};
  names.k = {"layer.1.EncDecAttention.k", "cross_attn_k"};
  names.v = {"layer.1.EncDecAttention.v", "cross_attn_v"};
  names.out = {"layer.1.EncDecAttention.o", "cross_attn_o"};
  names.mlp_norm.name = "layer.2.layer_norm";
  names.gate.name = "layer.2.DenseReluDense.wi_0";
  names.up.name = "layer.2.DenseReluDense.wi_1";
  names.down.name = "layer.2.DenseReluDense.wo";
  return names;
}

constexpr std::int64_t kMostBuckets = 1 << 12;

// "relu", or "gated-gelu", whose gelu is the one with tanh.
void read_feed_forward(const JsonReader& in, DecoderConfig& config) {
  const std::string_view kind = in.text_or("feed_forward_proj", "relu");
  config.plain_mlp = !kind.starts_with("gated-");
  const std::string_view name = config.plain_mlp ? kind : kind.substr(std::string_view("gated-").size());
  if (name == "relu") {
    config.activation = Activation::kRelu;
  } else if (name == "silu") {
    config.activation = Activation::kSilu;
  } else if (name == "gelu" || name == "gelu_new") {
    config.activation = config.plain_mlp && name == "gelu" ? Activation::kGelu : Activation::kGeluTanh;
  } else {
    in.fail_inside(fmt::format("feed_forward_proj '{}' is not supported", kind.substr(0, 40)),
                   "supported: relu, gelu, silu, gated-relu, gated-gelu, gated-silu");
  }
}

void read_t5(const JsonReader& in, DecoderConfig& config) {
  constexpr std::int64_t kMostBucketDistance = 1 << 16;
  require_flag(in, "is_encoder_decoder", true);
  read_feed_forward(in, config);
  config.encoder = {config.layers, config.heads, config.ffn};
  config.layers =
      static_cast<int>(config_integer(in, "num_decoder_layers", {1, ShapeLimits::kLayers / 2}, config.layers));
  PositionBiasSpec& bias = config.bias;
  bias.kind = PositionBiasSpec::Kind::kBuckets;
  bias.buckets = static_cast<int>(config_integer(in, "relative_attention_num_buckets", {1, kMostBuckets}, 32));
  bias.most_distance =
      static_cast<int>(config_integer(in, "relative_attention_max_distance", {1, kMostBucketDistance}, 128));
  config.attention_scale = 1;
  read_answer_start(in, config);
}

ModelSpec t5_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.ropes.clear();
  if (config.tied_embeddings) spec.logit_scale = 1.0F / std::sqrt(static_cast<float>(config.hidden));
  for (LayerSpec& layer : spec.layers) {
    layer.attention.rope = kNoRope;
    if (config.plain_mlp) layer.mlp.kind = MlpSpec::Kind::kPlain;
  }
  add_encoder(spec, config);
  for (LayerSpec& layer : spec.encoder.front().layers)
    layer.attention.bias.reach = PositionBiasSpec::Reach::kBothWays;
  return spec;
}

// An MLP without gates has a name of its own.
std::vector<TensorSpec> umt5_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> tensors =
      spec.encodes() ? encoder_tensors(spec, kT5Encoder) : block_tensors(spec, t5_text_names(), t5_source_names());
  constexpr std::string_view kUp = ".wi_1.";
  for (TensorSpec& tensor : tensors) {
    const size_t at = tensor.name.find(kUp);
    const bool plain = spec.layers.back().mlp.kind == MlpSpec::Kind::kPlain;
    if (plain && at != std::string::npos) tensor.name.replace(at, kUp.size(), ".wi.");
  }
  return tensors;
}

// The first layer's biases are all layers'.
std::vector<TensorSpec> t5_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> tensors = umt5_tensors(spec);
  std::erase_if(tensors,
                [](const TensorSpec& one) { return one.role == TensorRole::kRelativeBias && one.layer > 0; });
  return tensors;
}

constexpr ConfigKeys kT5Keys{.layers = "num_layers",
                             .hidden = "d_model",
                             .ffn = "d_ff",
                             .heads = "num_heads",
                             .kv_heads = "",
                             .head_dim = "d_kv",
                             .context = "n_positions",
                             .norm_eps = "layer_norm_epsilon"};
constexpr ConfigDefaults kT5Defaults{.tied = true, .norm_eps = 1e-6, .context = 512};

constexpr int kUsualBuckets = 32;
constexpr int kUsualDistance = 128;
constexpr std::array<std::string_view, 3> kT5Known{"attention.relative_buckets_count", "decoder_block_count",
                                                   "decoder_start_token_id"};

// Files say neither what the MLPs are nor how far biases tell distances apart, and UMT5's are known by the biases
// that each layer has.
void read_t5_gguf(const GgufReader& in, DecoderConfig& config) {
  config.plain_mlp = !in.has_tensor("enc.blk.0.ffn_gate.weight");
  config.activation = config.plain_mlp ? Activation::kRelu : Activation::kGeluTanh;
  config.attention_scale = 1;
  config.bias.kind = PositionBiasSpec::Kind::kBuckets;
  config.bias.buckets = in.size_or("attention.relative_buckets_count", kMostBuckets, kUsualBuckets);
  config.bias.most_distance = kUsualDistance;
  if (in.has_tensor("enc.blk.1.attn_rel_b.weight")) config.family = &kUmt5Family;
}

constexpr GgufForm kT5Form{.architecture = "t5", .two_lists = true, .known = kT5Known, .read = read_t5_gguf};

}  // namespace

extern constexpr Family kT5Family{.name = "t5",
                                  .also = "mt5",
                                  .gguf = kT5Form,
                                  .keys = kT5Keys,
                                  .defaults = kT5Defaults,
                                  .read = read_t5,
                                  .spec = t5_spec,
                                  .tensors = t5_tensors};

extern constexpr Family kUmt5Family{.name = "umt5",
                                    .gguf = kT5Form,
                                    .keys = kT5Keys,
                                    .defaults = kT5Defaults,
                                    .read = read_t5,
                                    .spec = t5_spec,
                                    .tensors = umt5_tensors};

}  // namespace kvasir
