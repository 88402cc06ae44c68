// Granite 3: Llama's layers, with the embedding, the scores, what branches add and the logits each times a number.
#include "model/families/family.h"

namespace kvasir {
namespace {

void read_granite(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.mlp_bias = in.flag_or("mlp_bias", false);
  config.embedding_scale = positive_or(in, "embedding_multiplier", 1);
  config.attention_scale = positive_or(in, "attention_multiplier", 1);
  config.branch_scale = positive_or(in, "residual_multiplier", 1);
  config.logit_scale = 1 / positive_or(in, "logits_scaling", 1);
}

std::vector<TensorSpec> granite_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kInterleaved);
}

}  // namespace

extern constexpr Family kGraniteFamily{
    .name = "granite", .read = read_granite, .spec = plain_decoder, .tensors = granite_tensors};

}  // namespace kvasir
