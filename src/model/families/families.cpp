#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/families/family.h"

namespace kvasir {

extern const Family kLlamaFamily;
extern const Family kMistralFamily;
extern const Family kQwen2Family;
extern const Family kQwen3Family;
extern const Family kQwen2MoeFamily;
extern const Family kQwen3MoeFamily;
extern const Family kMixtralFamily;
extern const Family kOlmoeFamily;
extern const Family kGraniteFamily;
extern const Family kCohere2Family;
extern const Family kSeedOssFamily;
extern const Family kExaone4Family;
extern const Family kOlmo2Family;
extern const Family kOlmo3Family;
extern const Family kSmollm3Family;
extern const Family kStarcoder2Family;
extern const Family kGemmaFamily;
extern const Family kGemma2Family;
extern const Family kGemma3Family;
extern const Family kPhi3Family;
extern const Family kGpt2Family;
extern const Family kGraniteMoeFamily;
extern const Family kMinistral3Family;
extern const Family kGemma4Family;
extern const Family kGptOssFamily;
extern const Family kGlm4Family;
extern const Family kGlm4MoeFamily;
extern const Family kMinimaxM2Family;
extern const Family kHunyuanFamily;
extern const Family kHunyuanMoeFamily;
extern const Family kLlama4Family;
extern const Family kGptNeoxFamily;
extern const Family kOptFamily;
extern const Family kGptBigcodeFamily;
extern const Family kFalconFamily;
extern const Family kBloomFamily;
extern const Family kCohereFamily;
extern const Family kDeepseekV2Family;
extern const Family kDeepseekV3Family;
extern const Family kErnie45Family;
extern const Family kGlm4MoeLiteFamily;
extern const Family kGptjFamily;
extern const Family kMistral4Family;
extern const Family kOlmoFamily;
extern const Family kPhiFamily;
extern const Family kStablelmFamily;
extern const Family kBertFamily;
extern const Family kXlmRobertaFamily;
extern const Family kModernBertFamily;
extern const Family kNomicBertFamily;
extern const Family kQwen3NextFamily;
extern const Family kQwen35Family;
extern const Family kQwen35MoeFamily;
extern const Family kLfm2Family;
extern const Family kGraniteHybridFamily;
extern const Family kBambaFamily;
extern const Family kFalconH1Family;
extern const Family kNemotronHFamily;
extern const Family kKimiLinearFamily;
extern const Family kLfm2MoeFamily;
extern const Family kT5Family;
extern const Family kUmt5Family;
extern const Family kBartFamily;

std::span<const Family* const> families() {
  static constexpr std::array kAll{&kLlamaFamily,       &kMistralFamily,    &kMixtralFamily,       &kQwen2Family,
                                   &kQwen3Family,       &kQwen2MoeFamily,   &kQwen3MoeFamily,      &kOlmoeFamily,
                                   &kGemma2Family,      &kGemma3Family,     &kOlmo2Family,         &kOlmo3Family,
                                   &kExaone4Family,     &kGraniteFamily,    &kSeedOssFamily,       &kSmollm3Family,
                                   &kCohere2Family,     &kStarcoder2Family, &kPhi3Family,          &kGpt2Family,
                                   &kGraniteMoeFamily,  &kMinistral3Family, &kGemma4Family,        &kGptOssFamily,
                                   &kGlm4Family,        &kGlm4MoeFamily,    &kMinimaxM2Family,     &kHunyuanFamily,
                                   &kHunyuanMoeFamily,  &kLlama4Family,     &kGptNeoxFamily,       &kOptFamily,
                                   &kGptBigcodeFamily,  &kFalconFamily,     &kBloomFamily,         &kGemmaFamily,
                                   &kErnie45Family,     &kCohereFamily,     &kOlmoFamily,          &kStablelmFamily,
                                   &kPhiFamily,         &kGptjFamily,       &kDeepseekV2Family,    &kDeepseekV3Family,
                                   &kGlm4MoeLiteFamily, &kMistral4Family,   &kQwen3NextFamily,     &kQwen35Family,
                                   &kQwen35MoeFamily,   &kLfm2Family,       &kGraniteHybridFamily, &kBertFamily,
                                   &kXlmRobertaFamily,  &kModernBertFamily, &kNomicBertFamily,     &kBambaFamily,
                                   &kFalconH1Family,    &kNemotronHFamily,  &kKimiLinearFamily,    &kLfm2MoeFamily,
                                   &kT5Family,          &kUmt5Family,       &kBartFamily};
  return kAll;
}

const Family& family_named(std::string_view model_type, const std::string& where) {
  std::string known;
  for (const Family* family : families()) {
    if (family->name == model_type || (!family->also.empty() && family->also == model_type)) return *family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->name);
  }
  fail_input(fmt::format("model_type '{}' is not known", model_type), where, "known are " + known);
}

ModelSpec checked_spec(const DecoderConfig& config, const std::string& where) {
  ModelSpec spec = config.family->spec(config);
  if (config.pooling) spec.vectors.pooling = *config.pooling;
  if (config.rerank.kind != RerankSpec::Kind::kNone) spec.rerank = config.rerank;
  if (spec.rerank.classifies()) {  // in place of a head
    spec.tied_embeddings = true;
    spec.head_bias = false;
  }
  check_shape(spec, where);
  return spec;
}

namespace {

const GgufForm& own_form(const Family& family, bool encodes, bool has_experts) {
  if (encodes && !family.gguf_encoder.architecture.empty()) return family.gguf_encoder;
  return has_experts && !family.gguf_experts.architecture.empty() ? family.gguf_experts : family.gguf;
}

}  // namespace

const GgufForm& gguf_form_of(const ModelSpec& spec) {
  const auto routes = [](const LayerSpec& layer) { return layer.mlp.moe.experts > 0; };
  return own_form(*spec.family, spec.encodes(), std::ranges::any_of(spec.layers, routes));
}

const GgufForm& gguf_form_of(const DecoderConfig& config) {
  return own_form(*config.family, config.both_ways, config.moe.experts > 0);
}

namespace {

AttentionSpec plain_attention(const DecoderConfig& config) {
  AttentionSpec attention;
  attention.heads = config.heads;
  attention.kv = {config.kv_heads, config.head_dim, config.head_dim};
  attention.scale = config.attention_scale > 0 ? static_cast<float>(config.attention_scale)
                                               : 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  attention.softcap = static_cast<float>(config.attention_softcap);
  attention.qkv_bias = config.attention_bias;
  attention.out_bias = config.attention_bias;
  attention.qk_norm = config.qk_norm;
  attention.latent = config.latent;
  if (!config.latent.none()) attention.kv = config.latent.shape();
  attention.clip = static_cast<float>(config.clip);
  attention.bias = config.bias;
  attention.out_scale = static_cast<float>(config.attention_out_scale);
  return attention;
}

void add_plain_layers(const DecoderConfig& config, ModelSpec& spec) {
  LayerSpec layer;
  layer.attention = plain_attention(config);
  layer.branch_scale = static_cast<float>(config.branch_scale);
  layer.norms = config.norms;
  MlpSpec dense{config.ffn, config.mlp_bias, {}, MlpSpec::Kind::kGated, config.activation};
  dense.gate_scale = static_cast<float>(config.gate_scale);
  dense.out_scale = static_cast<float>(config.mlp_out_scale);
  layer.mlp = config.moe.experts == 0
                  ? dense
                  : MlpSpec{config.expert_ffn, false, config.moe, MlpSpec::Kind::kGated, config.activation};
  spec.layers.assign(static_cast<size_t>(config.layers), layer);
  for (const int i : config.dense_layers) spec.layers[static_cast<size_t>(i)].mlp = dense;
}

// Layers that differ from the others: their windows and ropes, and those without attention or without an MLP.
void vary_layers(const DecoderConfig& config, ModelSpec& spec) {
  for (size_t i = 0; i < config.windows.size(); ++i) {
    spec.layers[i].attention.window = config.windows[i];
    if (config.windows[i] > 0 && config.local_rope) spec.layers[i].attention.rope = 1;
  }
  for (const int i : config.no_rope_layers) spec.layers[static_cast<size_t>(i)].attention.rope = kNoRope;
  const auto no_attention = [&spec](int i) {
    spec.layers[static_cast<size_t>(i)].attention = {};
    spec.layers[static_cast<size_t>(i)].attention.rope = kNoRope;
  };
  for (const int i : config.recurrent_layers) {
    if (!config.side_by_side) no_attention(i);
    spec.layers[static_cast<size_t>(i)].recurrent = config.recurrent;
  }
  for (const int i : config.unmixed_layers) no_attention(i);
  for (const int i : config.unfed_layers) spec.layers[static_cast<size_t>(i)].mlp = {};
}

}  // namespace

ModelSpec plain_decoder(const DecoderConfig& config) {
  ModelSpec spec;
  spec.family = config.family;
  spec.hidden = config.hidden;
  spec.vocab = config.vocab;
  spec.ropes = {config.rope};
  if (config.local_rope) spec.ropes.push_back(*config.local_rope);
  spec.context = config.context;
  spec.norm_eps = config.norm_eps;
  spec.embedding_scale = static_cast<float>(config.embedding_scale);
  spec.logit_scale = static_cast<float>(config.logit_scale);
  spec.logit_softcap = static_cast<float>(config.logit_softcap);
  spec.tied_embeddings = config.tied_embeddings;
  spec.dtype = config.dtype;
  spec.quantization = config.quantization;
  spec.eos = config.eos;
  spec.bos = config.bos;
  spec.positions = config.positions;
  spec.first_position = config.first_position;
  spec.embedding_width = config.embedding_width;
  spec.final_norm = config.final_norm;
  spec.layer_input = config.layer_input;
  spec.token_types = config.token_types;
  spec.norm_weights = config.norm_weights;
  add_plain_layers(config, spec);
  vary_layers(config, spec);
  return spec;
}

void make_encoder(ModelSpec& spec) {
  spec.end = ModelSpec::End::kVectors;
  spec.vectors = {VectorSpec::Pooling::kMean};
  spec.tied_embeddings = true;  // there is no head
  for (LayerSpec& layer : spec.layers) {
    AttentionSpec& attention = layer.attention;
    attention.mask = ScoreRule::Mask::kAll;
    if (attention.window == 0) continue;
    attention.bias.kind = PositionBiasSpec::Kind::kNear;
    attention.bias.reach = PositionBiasSpec::Reach::kBothWays;
    attention.bias.most_distance =
        static_cast<int>(std::min<std::int64_t>(attention.window / 2, std::numeric_limits<int>::max()));
    attention.window = 0;
  }
}

}  // namespace kvasir
