// Cohere (Command R, Aya 23) and Cohere2 (Command R7B, Command A): one LayerNorm without a bias feeds attention and
// MLP side by side; rope's pairs lie side by side on disk; logits are scaled. Cohere may normalize heads, each by
// weights of its own. In Cohere2 layers with a window have a rope, and the others have none.
#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr double kCohereTheta = 5e5;  // where a config does not say

void read_cohere(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.logit_scale = positive_or(in, "logit_scale", 0.0625);
  if (in.flag_or("use_qk_norm", false)) config.qk_norm = AttentionSpec::QkNorm::kEachHead;
}

void read_cohere2(const JsonReader& in, DecoderConfig& config) {
  read_cohere(in, config);
  require_flag(in, "use_qk_norm", false);
  const std::int64_t every =
      config_integer(in, "sliding_window_pattern", {1, ShapeLimits::kLayers}, kGlobalEveryFourth);
  read_windows(in, kUsualWindow, {.every = every}, config);
  for (int i = 0; i < static_cast<int>(config.windows.size()); ++i) {
    if (config.windows[static_cast<size_t>(i)] == 0) config.no_rope_layers.push_back(i);
  }
}

constexpr std::array<std::string_view, 4> kCohere2Known{"logit_scale", "attention.sliding_window",
                                                        "attention.sliding_window_pattern", "rope.freq_base_swa"};

constexpr std::array<std::string_view, 1> kCohereKnown{"logit_scale"};
constexpr std::array<std::string_view, 2> kCohereRefused{"output.weight", "attn_output.bias"};

void read_cohere_gguf(const GgufReader& in, DecoderConfig& config) {
  if (in.has_tensor("blk.0.attn_q_norm.weight")) config.qk_norm = AttentionSpec::QkNorm::kEachHead;
}

void read_cohere2_gguf(const GgufReader& /*in*/, DecoderConfig& config) { drop_global_ropes(config); }

ModelSpec cohere_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  for (LayerSpec& layer : spec.layers) {
    layer.norms = NormPlacement::kParallel;
    layer.attention.qk_norm_kind = NormRule::Kind::kLayer;
  }
  return spec;
}

std::vector<TensorSpec> cohere_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kInterleaved);
  for (TensorSpec& tensor : out) {
    if (tensor.role == kQNorm || tensor.role == kKNorm) tensor.gguf_rows = GgufRows::kInterleaved;
    tensor.hf_rows = tensor.gguf_rows;
  }
  store_stacked(out, kQNorm, "self_attn.q_norm.weight");
  store_stacked(out, kKNorm, "self_attn.k_norm.weight");
  return out;
}

}  // namespace

extern constexpr Family kCohereFamily{.name = "cohere",
                                      .gguf = {.architecture = "command-r",
                                               .norm_eps = "attention.layer_norm_epsilon",
                                               .known = kCohereKnown,
                                               .refused = kCohereRefused,
                                               .read = read_cohere_gguf},
                                      .keys = {.norm_eps = "layer_norm_eps"},
                                      .defaults = {.tied = true, .norm_eps = 1e-5, .rope_theta = kCohereTheta},
                                      .read = read_cohere,
                                      .spec = cohere_spec,
                                      .tensors = cohere_tensors};

extern constexpr Family kCohere2Family{.name = "cohere2",
                                       .gguf = {.architecture = "cohere2",
                                                .norm_eps = "attention.layer_norm_epsilon",
                                                .global_every = kGlobalEveryFourth,
                                                .windows_need_pattern = false,
                                                .known = kCohere2Known,
                                                .read = read_cohere2_gguf},
                                       .keys = {.norm_eps = "layer_norm_eps"},
                                       .defaults = {.tied = true, .norm_eps = 1e-5},
                                       .known_windows = {.every = kGlobalEveryFourth},
                                       .read = read_cohere2,
                                       .spec = cohere_spec,
                                       .tensors = cohere_tensors};

}  // namespace kvasir
