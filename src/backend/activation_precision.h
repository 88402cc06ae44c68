// What a row of activations is rounded to before it meets weights of fewer bits.
//
// Everything between matrix products is float32 always. Inside a product, bf16 weights meet rows rounded to bf16, as
// in every framework that runs a bf16 model: machines with bf16 dot products multiply those twice as fast. Quantized
// weights meet rows in 8 bits (quant/int8_rows.h); those of fp8 meet them as they are. The rounding belongs to the
// arithmetic, not to the machine: every instruction set does it, and all give the same bits. A GPU has its own:
// cuda/cuda_weight.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvasir {

enum class ActivationPrecision : std::uint8_t {
  kAsWeights,  // bf16 beside bf16 weights, 8 bits beside quantized ones, float32 beside f32, f16 and fp8
  kF32,        // never rounded: slower, closest to a float32 reference; quantized weights take 4 bytes each in memory
};

std::string_view name_of(ActivationPrecision activations);

// "auto" and "f32". Throws Error.
ActivationPrecision parse_activation_precision(std::string_view name);

}  // namespace kvasir
