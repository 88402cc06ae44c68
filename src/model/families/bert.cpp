// BERT, and XLM-RoBERTa, whose positions begin behind its padding's: encoders with learned positions, biases
// everywhere, and norms behind each sum. Every token sees all others.
#include <fmt/format.h>

#include <algorithm>

#include "model/families/family.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

constexpr LayerNames kBertNames{.attention_norm = {"attention.output.LayerNorm", "attn_output_norm"},
                                .mlp_norm = {"output.LayerNorm", "layer_output_norm"},
                                .up = {"intermediate.dense", "ffn_up"},
                                .down = {"output.dense", "ffn_down"},
                                .q = {"attention.self.query", "attn_q"},
                                .k = {"attention.self.key", "attn_k"},
                                .v = {"attention.self.value", "attn_v"},
                                .out = {"attention.output.dense", "attn_output"},
                                .layers = "encoder.layer",
                                .embedding = "embeddings.word_embeddings.weight",
                                .positions = "embeddings.position_embeddings.weight"};
constexpr int kMostTokenTypes = 64;

void read_bert(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kGelu, config);
  require_flag(in, "is_decoder", false);
  require_flag(in, "add_cross_attention", false);
  const std::string_view kind = in.text_or("position_embedding_type", "absolute");
  if (kind != "absolute") {
    in.fail_inside(fmt::format("position_embedding_type '{}' is not supported", kind.substr(0, 40)),
                   "models of this family are supported with absolute");
  }
  config.attention_bias = config.mlp_bias = true;
  config.norms = NormPlacement::kAfterSum;
  config.final_norm = false;
  config.positions = static_cast<int>(std::min(config.context, ShapeLimits::kVocab));
  config.token_types = static_cast<int>(config_integer(in, "type_vocab_size", {1, kMostTokenTypes}, 2));
}

// Positions count from the one behind the padding's, so that as many of the rows are of no text.
void read_xlm_roberta(const JsonReader& in, DecoderConfig& config) {
  read_bert(in, config);
  const std::int64_t padding = config_integer(in, "pad_token_id", {0, ShapeLimits::kVocab}, 1);
  if (padding + 1 >= config.context) in.fail_inside("pad_token_id leaves no positions");
  config.first_position = static_cast<int>(padding) + 1;
  config.context -= config.first_position;
  config.positions -= config.first_position;
}

ModelSpec bert_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  spec.ropes.clear();
  spec.norm = NormRule::Kind::kLayer;
  spec.norm_bias = true;
  spec.embedding_norm = true;
  make_encoder(spec);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.rope = kNoRope;
    layer.mlp.kind = MlpSpec::Kind::kPlain;
  }
  return spec;
}

std::vector<TensorSpec> bert_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, kBertNames);
  out.push_back({.name = "embeddings.token_type_embeddings.weight",
                 .gguf = "token_types.weight",
                 .rows = spec.token_types,
                 .cols = spec.hidden,
                 .role = TensorRole::kTokenTypes});
  for (const bool bias : {false, true}) {
    const char* part = bias ? "bias" : "weight";
    out.push_back({.name = fmt::format("embeddings.LayerNorm.{}", part),
                   .gguf = fmt::format("token_embd_norm.{}", part),
                   .rows = spec.hidden,
                   .role = TensorRole::kEmbeddingNorm,
                   .bias = bias});
  }
  return out;
}

// Files are of both kinds: the rows of no text are left out of XLM-RoBERTa's positions.
void read_bert_gguf(const GgufReader& in, DecoderConfig& config) {
  config.activation = Activation::kGelu;
  config.attention_bias = config.mlp_bias = true;
  config.norms = NormPlacement::kAfterSum;
  config.final_norm = false;
  config.positions = in.rows_of("position_embd.weight", ShapeLimits::kVocab);
  if (config.positions == 0) in.fail("there is no table position_embd.weight");
  config.context = std::min<std::int64_t>(config.context, config.positions);
}

constexpr GgufForm kBertForm{
    .architecture = "bert", .norm_eps = "attention.layer_norm_epsilon", .vectors = true, .read = read_bert_gguf};
constexpr ConfigKeys kBertKeys{.kv_heads = "", .head_dim = "", .norm_eps = "layer_norm_eps"};
constexpr ConfigDefaults kBertDefaults{.tied = true, .norm_eps = 1e-12};

}  // namespace

extern constexpr Family kBertFamily{.name = "bert",
                                    .gguf = kBertForm,
                                    .keys = kBertKeys,
                                    .defaults = kBertDefaults,
                                    .rerank = {.out = "classifier",
                                               .bias = true,
                                               .pooling = VectorSpec::Pooling::kCls,
                                               .between = "pooler.dense",
                                               .between_bias = true},
                                    .read = read_bert,
                                    .spec = bert_spec,
                                    .tensors = bert_tensors};

extern constexpr Family kXlmRobertaFamily{.name = "xlm-roberta",
                                          .also = "roberta",
                                          .gguf = kBertForm,
                                          .keys = kBertKeys,
                                          .defaults = {.tied = true, .norm_eps = 1e-5},
                                          .rerank = {.out = "classifier.out_proj",
                                                     .bias = true,
                                                     .pooling = VectorSpec::Pooling::kCls,
                                                     .between = "classifier.dense",
                                                     .between_bias = true},
                                          .read = read_xlm_roberta,
                                          .spec = bert_spec,
                                          .tensors = bert_tensors};

}  // namespace kvasir
