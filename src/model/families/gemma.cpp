// Gemma 1 to 3: norms whose weights are stored less one, embeddings times the root of their size. Gemma 2 and 3:
// local layers with a window between global ones, norms before and behind each branch; in Gemma 2 soft-caps.
#include <array>
#include <cmath>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr double kGemma2ScoreCap = 50;  // where a config does not say
constexpr double kGemma2LogitCap = 30;
constexpr LayerNames kGemmaNames{.mlp_norm = {"pre_feedforward_layernorm", "ffn_norm"}};
constexpr double kLocalTheta = 1e4;
constexpr double kQueryScalar = 256;
constexpr std::int64_t kGlobalEveryUnlessSaid = 6;

void read_gemma(const JsonReader& in, DecoderConfig& config) {
  const char* key = in.find("hidden_activation") ? "hidden_activation" : "hidden_act";
  read_activation(in, key, Activation::kGeluTanh, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.attention_scale = 1 / std::sqrt(positive_or(in, "query_pre_attn_scalar", kQueryScalar));
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
}

// Older files say gelu and mean its approximation, unless they have the newer key.
void read_gemma1(const JsonReader& in, DecoderConfig& config) {
  read_gemma(in, config);
  const bool old = !in.find("hidden_activation");
  if (old && config.activation == Activation::kGelu) config.activation = Activation::kGeluTanh;
  config.attention_scale = 0;
}

// null: none; absent: what the family has.
double softcap_of(const JsonReader& in, std::string_view key, double absent) {
  return in.has_null(key) ? 0.0 : positive_or(in, key, absent);
}

void read_gemma2(const JsonReader& in, DecoderConfig& config) {
  read_gemma(in, config);
  config.attention_softcap = softcap_of(in, "attn_logit_softcapping", kGemma2ScoreCap);
  config.logit_softcap = softcap_of(in, "final_logit_softcapping", kGemma2LogitCap);
  read_windows(in, kUsualWindow, {.every = 2}, config);
}

void read_gemma3(const JsonReader& in, DecoderConfig& config) {
  read_gemma(in, config);
  config.attention_softcap = softcap_of(in, "attn_logit_softcapping", 0);
  config.logit_softcap = softcap_of(in, "final_logit_softcapping", 0);
  config.both_ways = in.flag_or("use_bidirectional_attention", false);
  RopeSpec local;
  local.theta = positive_or(in, "rope_local_base_freq", kLocalTheta);
  read_local_rope(in, local, config);
  const std::int64_t every =
      config_integer(in, "sliding_window_pattern", {1, ShapeLimits::kLayers}, kGlobalEveryUnlessSaid);
  read_windows(in, kUsualWindow, {.every = every}, config);
}

constexpr std::array<std::string_view, 5> kGemmaKnown{"attn_logit_softcapping", "final_logit_softcapping",
                                                      "attention.sliding_window", "attention.sliding_window_pattern",
                                                      "rope.freq_base_swa"};
constexpr std::span<const std::string_view> kGemma3Known = std::span(kGemmaKnown).subspan<1>();  // it caps no scores

constexpr std::span<const std::string_view> kGemmaEmbeddingKnown = std::span(kGemmaKnown).subspan<2>();

// Files do not say what queries are scaled by: the largest model has a head's share of the hidden size, the others
// their head's size.
void read_gemma_gguf(int largest, DecoderConfig& config) {
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  const int size = config.layers == largest ? config.hidden / config.heads : config.head_dim;
  config.attention_scale = 1 / std::sqrt(static_cast<double>(size));
}

void read_gemma1_gguf(const GgufReader& /*in*/, DecoderConfig& config) {
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
}

constexpr std::array<std::string_view, 2> kGemma1Refused{"output.weight", "attn_output.bias"};

void read_gemma2_gguf(const GgufReader& /*in*/, DecoderConfig& config) {
  constexpr int kLargest = 46;
  read_gemma_gguf(kLargest, config);
  config.attention_softcap = kGemma2ScoreCap;
  config.logit_softcap = kGemma2LogitCap;
}

void read_gemma3_gguf(const GgufReader& in, DecoderConfig& config) {
  constexpr int kLargest = 62;
  read_gemma_gguf(kLargest, config);
  set_plain_local_rope(in, kLocalTheta, config);
}

ModelSpec gemma2_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) layer.norms = NormPlacement::kSandwich;
  return spec;
}

ModelSpec gemma3_spec(const DecoderConfig& config) {
  ModelSpec spec = gemma2_spec(config);
  for (LayerSpec& layer : spec.layers) layer.attention.qk_norm = AttentionSpec::QkNorm::kPerHead;
  if (config.both_ways) make_encoder(spec);
  return spec;
}

std::vector<TensorSpec> gemma_tensors(const ModelSpec& spec) {
  const bool sandwich = spec.layers.front().norms == NormPlacement::kSandwich;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, sandwich ? kGemmaNames : LayerNames{});
  for (TensorSpec& tensor : out) {
    if (tensor.vector() && !tensor.bias) tensor.offset = 1.0F;
  }
  return out;
}

}  // namespace

extern constexpr Family kGemmaFamily{
    .name = "gemma",
    .gguf = {.architecture = "gemma", .refused = kGemma1Refused, .read = read_gemma1_gguf},
    .defaults = {.tied = true, .head_dim = 256},
    .known_norm_eps = 1e-6,
    .read = read_gemma1,
    .spec = plain_decoder,
    .tensors = gemma_tensors};

extern constexpr Family kGemma2Family{.name = "gemma2",
                                      .gguf = {.architecture = "gemma2",
                                               .window = kUsualWindow,
                                               .global_every = 2,
                                               .windows_need_pattern = false,
                                               .known = kGemmaKnown,
                                               .read = read_gemma2_gguf},
                                      .defaults = {.tied = true, .head_dim = 256},
                                      .known_norm_eps = 1e-6,
                                      .known_windows = {.every = 2},
                                      .read = read_gemma2,
                                      .spec = gemma2_spec,
                                      .tensors = gemma_tensors};

extern constexpr Family kGemma3Family{.name = "gemma3_text",
                                      .also = "gemma3",  // the multimodal wrapper around it
                                      .gguf = {.architecture = "gemma3",
                                               .global_every = kGlobalEveryUnlessSaid,
                                               .windows_need_pattern = false,
                                               .known = kGemma3Known,
                                               .read = read_gemma3_gguf},
                                      .gguf_encoder = {.architecture = "gemma-embedding",
                                                       .global_every = kGlobalEveryUnlessSaid,
                                                       .windows_need_pattern = false,
                                                       .dense = 2,
                                                       .known = kGemmaEmbeddingKnown,
                                                       .read = read_gemma3_gguf},
                                      .defaults = {.tied = true,
                                                   .heads = 8,
                                                   .kv_heads = 4,
                                                   .head_dim = 256,
                                                   .vocab = 262208,
                                                   .context = 131072,
                                                   .rope_theta = 1e6},
                                      .known_norm_eps = 1e-6,
                                      .known_windows = {.every = kGlobalEveryUnlessSaid},
                                      .read = read_gemma3,
                                      .spec = gemma3_spec,
                                      .tensors = gemma_tensors};

}  // namespace kvasir
