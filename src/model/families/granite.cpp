// Granite 3: Llama's layers, with the embedding, the scores, what branches add and the logits each times a number;
// with experts in the MoE ones, chosen first and weighed by a softmax of the chosen.
#include <array>

#include "model/families/family.h"
#include "model/families/mamba_config.h"

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

constexpr std::array<std::string_view, 7> kGraniteHybridKnown{"attention.scale",
                                                              "embedding_scale",
                                                              "residual_scale",
                                                              "logit_scale",
                                                              kGgufRopeFactors,
                                                              "rope.scaling.finetuned",
                                                              "expert_shared_feed_forward_length"};

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

// Granite 4: Mamba-2 in most layers, attention that may know no positions, and an MLP beside experts, or without
// them.
void read_granite_hybrid(const JsonReader& in, DecoderConfig& config) {
  read_granite(in, config);
  const auto size = [&in](const char* key, std::int64_t most, std::int64_t fallback) {
    return static_cast<int>(config_integer(in, key, {1, most}, fallback));
  };
  const int shared = size("shared_intermediate_size", ShapeLimits::kFfn, 1024);
  if (config_integer(in, "num_local_experts", {0, ShapeLimits::kExperts}, 8) > 0) {
    read_experts(in, "num_local_experts", "num_experts_per_tok", config);
    config.moe.score = RouterRule::Score::kSoftmaxOfChosen;
    config.moe.shared_width = shared;
    config.expert_ffn = config.ffn;
  } else {
    config.ffn = shared;
  }
  read_mamba(in, 0, config);
  int layer = 0;
  for (const JsonReader type : in.get("layer_types").items()) {
    const bool recurs = type.text() == "mamba" || type.text() == "linear_attention";
    if (!recurs && type.text() != "attention" && type.text() != "full_attention") type.fail("is not known");
    if (recurs) config.recurrent_layers.push_back(layer);
    if (in.text_or("position_embedding_type", "nope") != "rope") config.no_rope_layers.push_back(layer);
    ++layer;
  }
  if (layer != config.layers) in.get("layer_types").fail("has another number of entries than there are layers");
}

constexpr ExpertNames kHybridExperts{.router = "block_sparse_moe.router.layer.weight",
                                     .shared_gate = {"shared_mlp.gate_linear", "ffn_gate_shexp"},
                                     .shared_up = {"shared_mlp.up_linear", "ffn_up_shexp"},
                                     .shared_down = {"shared_mlp.output_linear", "ffn_down_shexp"}};
constexpr LayerNames kHybridNames{.up = {"shared_mlp.up_linear", "ffn_up"},
                                  .down = {"shared_mlp.output_linear", "ffn_down"},
                                  .gate = {"shared_mlp.gate_linear", "ffn_gate"}};

std::vector<TensorSpec> granite_hybrid_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kInterleaved, kHybridExperts, kHybridNames);
  store_together(out, std::array{kGate, kUp}, {"shared_mlp.input_linear.weight"});
  for (const TensorRole role : {kGate, kUp}) store_stacked(out, role, "block_sparse_moe.input_linear.weight");
  store_stacked(out, kDown, "block_sparse_moe.output_linear.weight");
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

extern constexpr Family kGraniteHybridFamily{
    .name = "granitemoehybrid",
    .gguf = {.architecture = "granitehybrid",
             .divides_logits = true,
             .maybe_experts = true,
             .moe = {.score = RouterRule::Score::kSoftmaxOfChosen},
             .states = {GgufStates::Layers::kWithoutKvHeads, RecurrentSpec::Kind::kMamba2},
             .known = kGraniteHybridKnown},
    .experts = true,
    .read = read_granite_hybrid,
    .spec = plain_decoder,
    .tensors = granite_hybrid_tensors};

}  // namespace kvasir
