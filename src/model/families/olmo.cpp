// OLMo 1: LayerNorms without weights; queries, keys and values may be clipped. OLMo 2 and 3: norms behind each branch
// and none before it, and norms of all heads' queries and keys together. In OLMo 3 most layers have a window, and a
// rope that is not stretched.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr double kOlmoEps = 1e-5;  // which no config of the first says

void read_olmo1(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.clip = positive_or(in, "clip_qkv", 0);
  config.norm_weights = false;
  config.norm_eps = kOlmoEps;
}

constexpr std::array<std::string_view, 1> kOlmo1Known{"attention.clamp_kqv"};
constexpr std::array<std::string_view, 1> kOlmo1Refused{"attn_output.bias"};

void read_olmo1_gguf(const GgufReader& /*in*/, DecoderConfig& config) { config.norm_weights = false; }

std::vector<TensorSpec> olmo1_tensors(const ModelSpec& spec) { return decoder_tensors(spec, GgufRows::kInterleaved); }

ModelSpec olmo1_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  return spec;
}

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

constexpr std::array<std::string_view, 3> kOlmoKnown{"attention.sliding_window", "attention.sliding_window_pattern",
                                                     "rope.freq_base_swa"};

// OLMo 3 says that it is olmo2, with windows.
void read_olmo_gguf(const GgufReader& in, DecoderConfig& config) {
  if (!config.windows.empty()) set_plain_local_rope(in, config.rope.theta, config);
}

constexpr GgufForm kOlmoGguf{.architecture = "olmo2",
                             .global_every = kGlobalEveryFourth,
                             .windows_need_pattern = false,
                             .known = kOlmoKnown,
                             .read = read_olmo_gguf};

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

extern constexpr Family kOlmoFamily{.name = "olmo",
                                    .gguf = {.architecture = "olmo",
                                             .norm_eps = "attention.layer_norm_epsilon",
                                             .known = kOlmo1Known,
                                             .refused = kOlmo1Refused,
                                             .read = read_olmo1_gguf},
                                    .keys = {.norm_eps = ""},
                                    .read = read_olmo1,
                                    .spec = olmo1_spec,
                                    .tensors = olmo1_tensors};

extern constexpr Family kOlmo2Family{.name = "olmo2",
                                     .gguf = kOlmoGguf,
                                     .defaults = {.norm_eps = 1e-5},
                                     .read = read_olmo2,
                                     .spec = olmo_spec,
                                     .tensors = olmo_tensors};

extern constexpr Family kOlmo3Family{.name = "olmo3",
                                     .gguf = kOlmoGguf,
                                     .defaults = {.norm_eps = 1e-5},
                                     .known_windows = {.every = kGlobalEveryFourth},
                                     .read = read_olmo3,
                                     .spec = olmo_spec,
                                     .tensors = olmo_tensors};

}  // namespace kvasir
