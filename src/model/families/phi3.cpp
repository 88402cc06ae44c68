// Phi-3, 3.5, 4 and 4-mini: Llama's layers, with q, k and v in one tensor and gate and up in another; ropes of parts
// of heads, and longrope.
#include <array>

#include "model/families/family.h"

namespace kvasir {
namespace {

void read_phi3(const JsonReader& in, DecoderConfig& config) {
  require_silu(in);
  read_windows(in, 0, {}, config);
}

std::vector<TensorSpec> phi3_tensors(const ModelSpec& spec) {
  using enum TensorRole;
  std::vector<TensorSpec> out = decoder_tensors(spec, GgufRows::kAsStored);
  store_together(out, std::array{kQ, kK, kV}, {"self_attn.qkv_proj.weight", "self_attn.qkv_proj.bias", "attn_qkv"});
  store_together(out, std::array{kGate, kUp}, {"mlp.gate_up_proj.weight", "mlp.gate_up_proj.bias", "ffn_up"});
  return out;
}

constexpr std::array<std::string_view, 2> kPhi3Known{"rope_factors_long.weight", "rope_factors_short.weight"};

}  // namespace

extern constexpr Family kPhi3Family{.name = "phi3",
                                    .gguf = {.architecture = "phi3", .known = kPhi3Known},
                                    .defaults = {.norm_eps = 1e-5},
                                    .read = read_phi3,
                                    .spec = plain_decoder,
                                    .tensors = phi3_tensors};

}  // namespace kvasir
