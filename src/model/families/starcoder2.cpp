// StarCoder2: LayerNorms with biases, biases everywhere, and an MLP without gates; one window for all layers, or
// none.
#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr LayerNames kStarcoder2Names{.up = {"mlp.c_fc", "ffn_up"}, .down = {"mlp.c_proj", "ffn_down"}};

void read_starcoder2(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kGeluTanh, config);
  config.attention_bias = config.mlp_bias = in.flag_or("use_bias", true);
  if (in.find("sliding_window")) read_windows(in, 0, {}, config);
}

void read_starcoder2_gguf(const GgufReader& /*in*/, DecoderConfig& config) {
  config.activation = Activation::kGeluTanh;
}

ModelSpec starcoder2_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  for (LayerSpec& layer : spec.layers) layer.mlp.kind = MlpSpec::Kind::kPlain;
  return spec;
}

std::vector<TensorSpec> starcoder2_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, {}, kStarcoder2Names);
}

}  // namespace

extern constexpr Family kStarcoder2Family{
    .name = "starcoder2",
    .gguf = {.architecture = "starcoder2", .norm_eps = "attention.layer_norm_epsilon", .read = read_starcoder2_gguf},
    .keys = {.norm_eps = "norm_epsilon"},
    .defaults = {.tied = true, .norm_eps = 1e-5},
    .read = read_starcoder2,
    .spec = starcoder2_spec,
    .tensors = starcoder2_tensors};

}  // namespace kvasir
