// Falcon-H1: attention and Mamba-2 side by side behind one norm, and numbers that multiply nearly everything.
#include <fmt/format.h>

#include <cmath>

#include "model/families/mamba_config.h"
#include "model/gguf/gguf_reader.h"

namespace kvasir {
namespace {

double multiplier(const JsonReader& in, std::string_view key) { return in.find(key) ? in.get(key).number() : 1.0; }

// What attention reads is multiplied, and what it gives, and its keys. Without biases queries, keys and values grow
// alike: scores by the square, and by the keys' own number, and values by one.
void read_attention_multipliers(const JsonReader& in, DecoderConfig& config) {
  require_flag(in, "attention_bias", false);
  const double read = multiplier(in, "attention_in_multiplier");
  config.attention_scale =
      read * read * multiplier(in, "key_multiplier") / std::sqrt(static_cast<double>(config.head_dim));
  if (!(config.attention_scale > 0)) in.fail_inside("attention_in_multiplier and key_multiplier make no scores");
  config.attention_out_scale = read * multiplier(in, "attention_out_multiplier");
}

void read_falcon_h1(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  require_flag(in, "projectors_bias", false);
  config.mlp_bias = in.flag_or("mlp_bias", false);
  config.embedding_scale = multiplier(in, "embedding_multiplier");
  config.logit_scale = multiplier(in, "lm_head_multiplier");
  read_attention_multipliers(in, config);
  const std::vector<float> mlp = read_multipliers(in, "mlp_multipliers", 2);
  config.gate_scale = mlp[0];
  config.mlp_out_scale = mlp[1];
  const int inner = in.has_null("mamba_d_ssm")
                        ? 0
                        : static_cast<int>(config_integer(in, "mamba_d_ssm", {1, ShapeLimits::kQueryWidth}, 1024));
  read_mamba(in, inner, config);
  RecurrentSpec& recurrent = config.recurrent;
  const std::vector<float> parts = read_multipliers(in, "ssm_multipliers", recurrent.in_scales.size());
  const auto all = static_cast<float>(multiplier(in, "ssm_in_multiplier"));
  for (size_t i = 0; i < parts.size(); ++i) {  // of gates, values, keys, queries, steps
    recurrent.in_scales[i] = parts[i] * all;
  }
  recurrent.out_scale = static_cast<float>(multiplier(in, "ssm_out_multiplier"));
  recurrent.norm_groups = recurrent.k_heads;
  recurrent.norm_stage = !in.flag_or("mamba_rms_norm", false)         ? RecurrentSpec::NormStage::kNone
                         : in.flag_or("mamba_norm_before_gate", true) ? RecurrentSpec::NormStage::kBeforeGate
                                                                      : RecurrentSpec::NormStage::kBehindGate;
  config.side_by_side = true;
  for (int i = 0; i < config.layers; ++i) config.recurrent_layers.push_back(i);
}

constexpr LayerNames kFalconH1Names{.mlp_norm = {"pre_ff_layernorm", "ffn_norm"},
                                    .up = {"feed_forward.up_proj", "ffn_up"},
                                    .down = {"feed_forward.down_proj", "ffn_down"},
                                    .gate = {"feed_forward.gate_proj", "ffn_gate"},
                                    .final_norm = "model.final_layernorm"};

// GGUF's name of one norm has no suffix.
std::vector<TensorSpec> falcon_h1_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored, {}, kFalconH1Names);
  for (TensorSpec& tensor : out) {
    if (tensor.role != TensorRole::kMlpNorm) continue;
    tensor.gguf_else.push_back(tensor.gguf_place());
    tensor.gguf = fmt::format("blk.{}.ffn_norm", tensor.layer);
  }
  return out;
}

// Files have all that multiplies in their weights.
void read_falcon_h1_gguf(const GgufReader& in, DecoderConfig& config) {
  if (!in.has_tensor("blk.0.ssm_norm.weight")) config.recurrent.norm_stage = RecurrentSpec::NormStage::kNone;
}

constexpr GgufForm kFalconH1Gguf{.architecture = "falcon-h1",
                                 .states = {.layers = GgufStates::Layers::kBeside,
                                            .kind = RecurrentSpec::Kind::kMamba2,
                                            .norms = GgufStates::Norms::kByGroup},
                                 .read = read_falcon_h1_gguf};

}  // namespace

extern constexpr Family kFalconH1Family{.name = "falcon_h1",
                                        .gguf = kFalconH1Gguf,
                                        .defaults = {.norm_eps = 1e-5},
                                        .read = read_falcon_h1,
                                        .spec = plain_decoder,
                                        .tensors = falcon_h1_tensors};

}  // namespace kvasir
