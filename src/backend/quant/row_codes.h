// Rows of weights in 8 bits: a code a number and one scale, for weights that become such as they are loaded.
//
// The number furthest from zero gets the largest code. A row of zeros, or of numbers too small for a scale, is all
// zeros; a row with a number that is none has a scale that is none, so that its output says so.
#pragma once

#include <cstdint>
#include <span>

#include "backend/weight_quantization.h"
#include "layout/codec_fp8.h"

namespace kvasir {

// Returns the scale; writes row.size() codes. REQUIRES: a form of 8 bits.
float encode_codes(WeightQuantization form, std::span<const float> row, std::uint8_t* codes);

// Without the scale. Exact, in bf16 too.
inline float decode_code(WeightQuantization form, std::uint8_t code) {
  return form == WeightQuantization::kFp8 ? CodecE4M3::decode(code)
                                          : static_cast<float>(static_cast<std::int8_t>(code));
}

// The numbers that the codes stand for.
void round_to_codes(WeightQuantization form, std::span<float> row);

}  // namespace kvasir
