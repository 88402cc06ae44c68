// Seed-OSS: Llama's layers with biases of q, k and v, and one of o that is asked for apart.
#include "model/families/family.h"

namespace kvasir {
namespace {

void read_seed_oss(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("attention_bias", true);
  config.attention_out_bias = in.flag_or("attention_out_bias", false);
  config.mlp_bias = in.flag_or("mlp_bias", false);
}

ModelSpec seed_oss_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) layer.attention.out_bias = config.attention_out_bias;
  return spec;
}

// GGUF has the norm before the MLP under the name that others have for one behind attention.
constexpr LayerNames kSeedOssNames{.mlp_norm = {"post_attention_layernorm", "post_attention_norm"}};

std::vector<TensorSpec> seed_oss_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, {}, kSeedOssNames);
}

}  // namespace

extern constexpr Family kSeedOssFamily{.name = "seed_oss",
                                       .gguf = {.architecture = "seed_oss"},
                                       .defaults = {.head_dim = 128},
                                       .read = read_seed_oss,
                                       .spec = seed_oss_spec,
                                       .tensors = seed_oss_tensors};

}  // namespace kvasir
