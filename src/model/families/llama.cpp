// Llama, and whoever has its layers: the plain decoder, with biases where the config says so.
#include <array>

#include "model/families/family.h"

namespace kvasir {
namespace {

void read_llama(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  config.attention_bias = in.flag_or("attention_bias", false);
  config.mlp_bias = in.flag_or("mlp_bias", false);
}

std::vector<TensorSpec> llama_tensors(const ModelSpec& spec) { return decoder_tensors(spec, GgufRows::kInterleaved); }

constexpr std::array kLlamaKnown{kGgufRopeFactors};

}  // namespace

extern constexpr Family kLlamaFamily{.name = "llama",
                                     .gguf = {.architecture = "llama", .known = kLlamaKnown},
                                     .read = read_llama,
                                     .spec = plain_decoder,
                                     .tensors = llama_tensors};

}  // namespace kvasir
