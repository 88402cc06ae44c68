// Mixtral: Mistral's attention, and experts in all layers. Its GGUF files say that they are llama, with experts.
#include "model/families/family.h"

namespace kvasir {
namespace {

constexpr ExpertNames kMixtralNames{.router = "block_sparse_moe.gate.weight",
                                    .gate = "block_sparse_moe.experts.{}.w1.weight",
                                    .up = "block_sparse_moe.experts.{}.w3.weight",
                                    .down = "block_sparse_moe.experts.{}.w2.weight"};

void read_mixtral(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  read_windows(in, 0, {}, config);
  read_experts(in, "num_local_experts", "num_experts_per_tok", config);
  config.moe.normalized = true;
}

std::vector<TensorSpec> mixtral_tensors(const ModelSpec& spec) {
  return decoder_tensors(spec, GgufRows::kInterleaved, kMixtralNames);
}

}  // namespace

extern constexpr Family kMixtralFamily{.name = "mixtral",
                                       .gguf = {.architecture = "llama"},
                                       .experts = true,
                                       .read = read_mixtral,
                                       .spec = plain_decoder,
                                       .tensors = mixtral_tensors};

}  // namespace kvasir
