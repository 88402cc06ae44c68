// ERNIE 4.5 (dense): Llama's layers; rope's pairs lie side by side on disk; one flag for the biases of all matrices.
#include <array>

#include "model/families/family.h"

namespace kvasir {
namespace {

constexpr double kErnieTheta = 5e5;  // where a config does not say

void read_ernie(const JsonReader& in, DecoderConfig& config) {
  read_activation(in, "hidden_act", Activation::kSilu, config);
  config.attention_bias = config.mlp_bias = in.flag_or("use_bias", false);
}

std::vector<TensorSpec> ernie_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kInterleaved);
  for (TensorSpec& tensor : out) tensor.hf_rows = tensor.gguf_rows;
  return out;
}

constexpr std::array<std::string_view, 1> kErnieRefused{"ffn_up.bias"};

}  // namespace

extern constexpr Family kErnie45Family{
    .name = "ernie4_5",
    .gguf = {.architecture = "ernie4_5", .refused = kErnieRefused},
    .defaults = {.tied = true, .norm_eps = 1e-5, .head_dim = 128, .rope_theta = kErnieTheta},
    .read = read_ernie,
    .spec = plain_decoder,
    .tensors = ernie_tensors};

}  // namespace kvasir
