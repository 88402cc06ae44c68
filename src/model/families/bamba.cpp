// Bamba: Mamba-2 in most layers, and attention whose heads turn by half.
#include "model/families/mamba_config.h"

namespace kvasir {
namespace {

void read_bamba(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.mlp_bias = in.flag_or("mlp_bias", false);
  read_mamba(in, 0, config);
  std::vector<bool> attends(static_cast<size_t>(config.layers), false);
  for (const JsonReader layer : in.get("attn_layer_indices").items()) {
    attends[static_cast<size_t>(layer.integer({0, config.layers - 1}))] = true;
  }
  for (int i = 0; i < config.layers; ++i) {
    if (!attends[static_cast<size_t>(i)]) config.recurrent_layers.push_back(i);
  }
}

constexpr LayerNames kBambaNames{.mlp_norm = {"pre_ff_layernorm", "ffn_norm"},
                                 .up = {"feed_forward.up_proj", "ffn_up"},
                                 .down = {"feed_forward.down_proj", "ffn_down"},
                                 .gate = {"feed_forward.gate_proj", "ffn_gate"},
                                 .final_norm = "model.final_layernorm"};

std::vector<TensorSpec> bamba_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kAsStored, {}, kBambaNames);
}

}  // namespace

extern constexpr Family kBambaFamily{.name = "bamba",
                                     .defaults = {.norm_eps = 1e-5, .rotated = 0.5},
                                     .read = read_bamba,
                                     .spec = plain_decoder,
                                     .tensors = bamba_tensors};

}  // namespace kvasir
