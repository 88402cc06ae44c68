// Qwen2 and Qwen2.5: q, k and v have biases and o has none; later layers may have a window.
#include "model/families/family.h"

namespace kvasir {
namespace {

void read_qwen2(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  read_later_windows(in, config);
}

ModelSpec qwen2_spec(const DecoderConfig& config) {
  ModelSpec spec = plain_decoder(config);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.qkv_bias = true;
    layer.attention.out_bias = false;
  }
  return spec;
}

std::vector<TensorSpec> qwen2_tensors(const ModelSpec& spec) { return decoder_tensors(spec, GgufRows::kAsStored); }

}  // namespace

extern constexpr Family kQwen2Family{.name = "qwen2",
                                     .gguf = {.architecture = "qwen2"},
                                     .known_norm_eps = 1e-6,
                                     .read = read_qwen2,
                                     .spec = qwen2_spec,
                                     .tensors = qwen2_tensors};

}  // namespace kvasir
