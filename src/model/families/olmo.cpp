// OLMo 2 and 3: norms behind each branch and none before it, and norms of all heads' queries and keys together. In
// OLMo 3 most layers have a window, and a rope that is not stretched.
#include "model/families/family.h"

namespace kvasir {
namespace {

void read_olmo2(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("attention_bias", false);
}

void read_olmo3(const JsonReader& in, DecoderConfig& config) {
  read_olmo2(in, config);
  read_windows(in, kUsualWindow, {.every = kGlobalEveryFourth}, config);
  RopeSpec plain;
  plain.theta = config.rope.theta;
  read_local_rope(in, plain, config);
}

ModelSpec olmo_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) {
    layer.norms = NormPlacement::kPost;
    layer.attention.qk_norm = AttentionSpec::QkNorm::kWhole;
  }
  return spec;
}

std::vector<TensorSpec> olmo_tensors(const ModelSpec& spec) { return decoder_tensors(spec, GgufRows::kAsStored); }

}  // namespace

extern constexpr Family kOlmo2Family{
    .name = "olmo2", .defaults = {.norm_eps = 1e-5}, .read = read_olmo2, .spec = olmo_spec, .tensors = olmo_tensors};

extern constexpr Family kOlmo3Family{.name = "olmo3",
                                     .defaults = {.norm_eps = 1e-5},
                                     .known_windows = {.every = kGlobalEveryFourth},
                                     .read = read_olmo3,
                                     .spec = olmo_spec,
                                     .tensors = olmo_tensors};

}  // namespace kvasir
