// Granite 3: Llama's layers, with the embedding, the scores, what branches add and the logits each times a number;
// with experts in the MoE ones, chosen first and weighed by a softmax of the chosen.
#include <array>

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

constexpr std::array<std::string_view, 5> kGraniteKnown{"attention.scale", "embedding_scale", "residual_scale",
                                                        "logit_scale", kGgufRopeFactors};

constexpr ExpertNames kGraniteExperts{.router = "block_sparse_moe.router.layer.weight"};

void read_granite_moe(const JsonReader& in, DecoderConfig& config) {
  read_granite(in, config);
  read_experts(in, "num_local_experts", "num_experts_per_tok", config);
  config.moe.score = RouterRule::Score::kSoftmaxOfChosen;
}

std::vector<TensorSpec> granite_moe_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kInterleaved, kGraniteExperts);
  for (const TensorRole role : {kGate, kUp}) store_stacked(out, role, "block_sparse_moe.input_linear.weight");
  store_stacked(out, kDown, "block_sparse_moe.output_linear.weight");
  store_together(out, std::array{kGate, kUp}, {"block_sparse_moe.input_linear.weight"});
  return out;
}

std::vector<TensorSpec> granite_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kInterleaved);
}

}  // namespace

extern constexpr Family kGraniteFamily{
    .name = "granite",
    .gguf = {.architecture = "granite", .divides_logits = true, .known = kGraniteKnown},
    .read = read_granite,
    .spec = plain_decoder,
    .tensors = granite_tensors};

extern constexpr Family kGraniteMoeFamily{.name = "granitemoe",
                                          .gguf = {.architecture = "granitemoe",
                                                   .divides_logits = true,
                                                   .moe = {.score = RouterRule::Score::kSoftmaxOfChosen},
                                                   .known = kGraniteKnown},
                                          .experts = true,
                                          .read = read_granite_moe,
                                          .spec = plain_decoder,
                                          .tensors = granite_moe_tensors};

}  // namespace kvasir
