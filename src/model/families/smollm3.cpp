// SmolLM3: Llama's layers, of which each fourth, or those that the config lists, have no rope.
#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr std::int64_t kNoRopeEvery = 4;

void drop_ropes(std::int64_t every, DecoderConfig& config) {
  for (int i = 0; i < config.layers; ++i) {
    if ((i + 1) % every == 0) config.no_rope_layers.push_back(i);
  }
}

void read_smollm3(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.mlp_bias = in.flag_or("mlp_bias", false);
  if (in.flag_or("use_sliding_window", false)) read_windows(in, 0, {}, config);
  const std::int64_t every = config_integer(in, "no_rope_layer_interval", {1, ShapeLimits::kLayers}, kNoRopeEvery);
  const std::optional<JsonReader> listed = in.find("no_rope_layers");
  if (listed && static_cast<int>(listed->items().size()) != config.layers)
    listed->fail("is not a number for each layer");
  int i = 0;
  if (listed) {
    for (const JsonReader has_rope : listed->items()) {
      if (has_rope.integer({0, 1}) == 0) config.no_rope_layers.push_back(i);
      ++i;
    }
    return;
  }
  drop_ropes(every, config);
}

void read_smollm3_gguf(const GgufReader& /*in*/, DecoderConfig& config) { drop_ropes(kNoRopeEvery, config); }

std::vector<TensorSpec> smollm3_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kInterleaved);
}

}  // namespace

extern constexpr Family kSmollm3Family{.name = "smollm3",
                                       .gguf = {.architecture = "smollm3", .read = read_smollm3_gguf},
                                       .defaults = {.tied = true, .rope_theta = 2e6},
                                       .read = read_smollm3,
                                       .spec = plain_decoder,
                                       .tensors = smollm3_tensors};

}  // namespace kvasir
