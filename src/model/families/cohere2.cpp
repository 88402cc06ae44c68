// Cohere2 (Command R7B, Command A): one LayerNorm without a bias feeds attention and MLP side by side; layers with a
// window have a rope, whose pairs lie side by side on disk, and the others have none; logits are scaled.
#include "model/families/family.h"

namespace kvasir {
namespace {

void read_cohere2(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.logit_scale = positive_or(in, "logit_scale", 0.0625);
  const std::int64_t every =
      config_integer(in, "sliding_window_pattern", {1, ShapeLimits::kLayers}, kGlobalEveryFourth);
  read_windows(in, kUsualWindow, {.every = every}, config);
  for (int i = 0; i < static_cast<int>(config.windows.size()); ++i) {
    if (config.windows[static_cast<size_t>(i)] == 0) config.no_rope_layers.push_back(i);
  }
}

ModelSpec cohere2_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  for (LayerSpec& layer : spec.layers) layer.norms = NormPlacement::kParallel;
  return spec;
}

std::vector<TensorSpec> cohere2_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kInterleaved);
  for (TensorSpec& tensor : out) tensor.hf_rows = tensor.gguf_rows;
  return out;
}

}  // namespace

extern constexpr Family kCohere2Family{.name = "cohere2",
                                       .keys = {.norm_eps = "layer_norm_eps"},
                                       .defaults = {.tied = true, .norm_eps = 1e-5},
                                       .known_windows = {.every = kGlobalEveryFourth},
                                       .read = read_cohere2,
                                       .spec = cohere2_spec,
                                       .tensors = cohere2_tensors};

}  // namespace kvasir
