// EXAONE 4: norms behind each branch and none before it, norms of each query and key head; where some layers have a
// window, the others have no rope.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

void read_exaone4(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  if (!in.find("sliding_window")) return;
  read_windows(in, 0, {.every = kGlobalEveryFourth}, config);
  for (int i = 0; i < config.layers; ++i) {
    if (config.windows[static_cast<size_t>(i)] == 0) config.no_rope_layers.push_back(i);
  }
}

constexpr std::array<std::string_view, 4> kExaone4Known{
    "attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa", kGgufRopeFactors};

// Files say how long the windows are, and only the largest model has them; others that have some say which layers do.
void read_exaone4_gguf(const GgufReader& in, DecoderConfig& config) {
  constexpr int kLargest = 64;
  if (config.windows.empty() && config.layers == kLargest) {
    const std::int64_t window =
        in.integer_if("attention.sliding_window", 0, ShapeLimits::kContext).value_or(kUsualWindow);
    if (window > 0) set_windows(window, {.every = kGlobalEveryFourth}, config);
  }
  drop_global_ropes(config);
}

ModelSpec exaone4_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) {
    layer.norms = NormPlacement::kPost;
    layer.attention.qk_norm = AttentionSpec::QkNorm::kPerHead;
  }
  return spec;
}

std::vector<TensorSpec> exaone4_tensors(const ModelSpec& spec) { return decoder_tensors(spec, GgufRows::kAsStored); }

}  // namespace

extern constexpr Family kExaone4Family{
    .name = "exaone4",
    .gguf = {.architecture = "exaone4", .known = kExaone4Known, .read = read_exaone4_gguf},
    .defaults = {.norm_eps = 1e-5},
    .known_windows = {.every = kGlobalEveryFourth},
    .read = read_exaone4,
    .spec = exaone4_spec,
    .tensors = exaone4_tensors};

}  // namespace kvasir
