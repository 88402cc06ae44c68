// ModernBERT: an encoder with rope, gates and norms before each branch, but for the first attention, which reads the
// normalized embedding. Each third layer sees all tokens, the others those nearby. Nomic's BERT: rope, gates and
// norms behind each sum.
#include <fmt/format.h>

#include <array>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr LayerNames kModernBertNames{.attention_norm = {"attn_norm", "attn_norm"},
                                      .mlp_norm = {"mlp_norm", "ffn_norm"},
                                      .down = {"mlp.Wo", "ffn_down"},
                                      .out = {"attn.Wo", "attn_output"},
                                      .layers = "layers",
                                      .embedding = "embeddings.tok_embeddings.weight",
                                      .final_norm = "final_norm"};
constexpr double kGlobalTheta = 160000;
constexpr double kNearTheta = 10000;
constexpr std::int64_t kNearWindow = 128;
constexpr std::int64_t kGlobalEveryThird = 3;

// Which layers see all: the first one, and each `every`-th behind it.
void read_near_layers(const JsonReader& in, DecoderConfig& config) {
  const std::int64_t window = config_integer(in, "local_attention", {1, ShapeLimits::kContext}, kNearWindow);
  const std::int64_t every =
      config_integer(in, "global_attn_every_n_layers", {1, ShapeLimits::kLayers}, kGlobalEveryThird);
  const std::optional<JsonReader> types = in.find("layer_types");
  if (types && types->items().size() != static_cast<size_t>(config.layers)) {
    types->fail(fmt::format("has {} entries for {} layers", types->items().size(), config.layers));
  }
  for (int layer = 0; layer < config.layers; ++layer) config.windows.push_back(layer % every == 0 ? 0 : window);
  if (!types) return;
  size_t layer = 0;
  for (const JsonReader type : types->items()) {
    config.windows[layer++] = type.text() == "full_attention" ? 0 : window;
  }
}

// Of a classifier: which rows it reads, and what lies before it.
void read_modern_classifier(const JsonReader& in, RerankSpec& rerank) {
  if (!rerank.classifies()) return;
  rerank.pooling = pooling_named(in.text_or("classifier_pooling", "cls"), "classifier_pooling");
  rerank.between.bias = in.flag_or("classifier_bias", false);
  const std::string_view activation = in.text_or("classifier_activation", "gelu");
  if (activation == "gelu") return;
  in.fail_inside(fmt::format("classifier_activation '{}' is not supported", activation.substr(0, 40)),
                 "models of this family are supported with gelu");
}

void read_modern_bert(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_activation", Activation::kGelu, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.mlp_bias = in.flag_or("mlp_bias", false);
  require_flag(in, "norm_bias", false);
  if (!in.find("rope_parameters")) config.rope.theta = positive_or(in, "global_rope_theta", kGlobalTheta);
  RopeSpec near;
  near.theta = positive_or(in, "local_rope_theta", kNearTheta);
  read_local_rope(in, near, config);
  read_near_layers(in, config);
  read_modern_classifier(in, config.rerank);
}

ModelSpec modern_bert_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  spec.embedding_norm = true;
  spec.layers.front().attention_norm = false;
  make_encoder(spec);
  spec.vectors.pooling = VectorSpec::Pooling::kCls;
  return spec;
}

TensorSpec embedding_norm(const ModelSpec& spec, std::string_view name, bool bias) {
  const char* part = bias ? "bias" : "weight";
  return {.name = fmt::format("{}.{}", name, part),
          .gguf = fmt::format("token_embd_norm.{}", part),
          .rows = spec.hidden,
          .role = TensorRole::kEmbeddingNorm,
          .bias = bias};
}

std::vector<TensorSpec> modern_bert_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, kModernBertNames);
  out.push_back(embedding_norm(spec, "embeddings.norm", false));
  store_together(out, std::array{kQ, kK, kV}, {"attn.Wqkv.weight", "attn.Wqkv.bias", "attn_qkv"});
  store_together(out, std::array{kGate, kUp}, {"mlp.Wi.weight", "mlp.Wi.bias", "ffn_up"});
  return out;
}

constexpr std::array<std::string_view, 4> kModernBertKnown{
    "attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa", "hidden_activation"};

void read_modern_bert_gguf(const GgufReader& /*in*/, DecoderConfig& config) {
  config.activation = Activation::kGelu;
  if (!config.local_rope) config.local_rope = config.rope;
}

constexpr LayerNames kNomicNames{.attention_norm = {"norm1", "attn_output_norm"},
                                 .mlp_norm = {"norm2", "layer_output_norm"},
                                 .up = {"mlp.fc11", "ffn_up"},
                                 .down = {"mlp.fc2", "ffn_down"},
                                 .out = {"attn.out_proj", "attn_output"},
                                 .gate = {"mlp.fc12", "ffn_gate"},
                                 .layers = "encoder.layers",
                                 .embedding = "embeddings.word_embeddings.weight"};
constexpr double kNomicTheta = 1000;
constexpr int kMostKindsOfText = 64;

void read_nomic_bert(const JsonReader& in, DecoderConfig& config) {
  const std::string_view activation = in.text_or("activation_function", "swiglu");
  if (activation != "swiglu") {
    in.fail_inside(fmt::format("activation_function '{}' is not supported", activation.substr(0, 40)),
                   "models of this family are supported with swiglu");
  }
  for (const char* key : {"prenorm", "use_rms_norm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias",
                          "parallel_block", "rotary_emb_interleaved", "causal"}) {
    require_flag(in, key, false);
  }
  if (config_integer(in, "num_experts", {0, ShapeLimits::kExperts}, 0) > 0) {
    in.fail_inside("num_experts is above 0", "models of this family are supported without experts");
  }
  config.rope.theta = positive_or(in, "rotary_emb_base", kNomicTheta);
  config.rope.rotated = positive_or(in, "rotary_emb_fraction", 1.0);
  if (config.rope.rotated > 1) in.fail_inside("rotary_emb_fraction is above 1");
  config.norms = NormPlacement::kAfterSum;
  config.final_norm = false;
  config.token_types = static_cast<int>(config_integer(in, "type_vocab_size", {0, kMostKindsOfText}, 2));
}

ModelSpec nomic_bert_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  spec.embedding_norm = true;
  make_encoder(spec);
  return spec;
}

std::vector<TensorSpec> nomic_bert_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, kNomicNames);
  if (spec.token_types > 0) {
    out.push_back({.name = "embeddings.token_type_embeddings.weight",
                   .gguf = "token_types.weight",
                   .rows = spec.token_types,
                   .cols = spec.hidden,
                   .role = kTokenTypes});
  }
  for (const bool bias : {false, true}) out.push_back(embedding_norm(spec, "emb_ln", bias));
  store_together(out, std::array{kQ, kK, kV}, {"attn.Wqkv.weight", {}, "attn_qkv"});
  return out;
}

void read_nomic_bert_gguf(const GgufReader& /*in*/, DecoderConfig& config) {
  config.norms = NormPlacement::kAfterSum;
  config.final_norm = false;
}

}  // namespace

extern constexpr Family kModernBertFamily{.name = "modernbert",
                                          .gguf = {.architecture = "modern-bert",
                                                   .norm_eps = "attention.layer_norm_epsilon",
                                                   .global_every = kGlobalEveryThird,
                                                   .window_phase = 0,
                                                   .windows_need_pattern = false,
                                                   .vectors = true,
                                                   .known = kModernBertKnown,
                                                   .read = read_modern_bert_gguf},
                                          .keys = {.kv_heads = "", .head_dim = "", .norm_eps = "norm_eps"},
                                          .defaults = {.tied = true, .norm_eps = 1e-5},
                                          .rerank = {.out = "classifier",
                                                     .bias = true,
                                                     .pooling = VectorSpec::Pooling::kCls,
                                                     .between = "head.dense",
                                                     .norm = "head.norm",
                                                     .activation = RerankSpec::Activation::kGelu},
                                          .read = read_modern_bert,
                                          .spec = modern_bert_spec,
                                          .tensors = modern_bert_tensors};

extern constexpr Family kNomicBertFamily{.name = "nomic_bert",
                                         .gguf = {.architecture = "nomic-bert",
                                                  .norm_eps = "attention.layer_norm_epsilon",
                                                  .vectors = true,
                                                  .read = read_nomic_bert_gguf},
                                         .keys = {.layers = "n_layer",
                                                  .hidden = "n_embd",
                                                  .ffn = "n_inner",
                                                  .heads = "n_head",
                                                  .kv_heads = "",
                                                  .head_dim = "",
                                                  .context = "n_positions",
                                                  .norm_eps = "layer_norm_epsilon"},
                                         .defaults = {.tied = true, .norm_eps = 1e-12, .ffn_times_hidden = 4},
                                         .read = read_nomic_bert,
                                         .spec = nomic_bert_spec,
                                         .tensors = nomic_bert_tensors};

}  // namespace kvasir
