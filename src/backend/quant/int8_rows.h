// Rows of activations as they meet quantized weights: blocks of 32 numbers in 8 bits with a scale.
//
// x = scale q, scale = largest / 127, q = x * (127 / largest) to the nearest, ties to even. A block whose largest
// number is below kTiniest has scale and q 0. Products with quantized weights are then sums of small integers, which
// are exact in any order.
#pragma once

#include <cstdint>

namespace kvasir {

inline constexpr int kInt8Block = 32;
inline constexpr float kTiniest = 1e-30F;

struct Int8Block {
  std::int8_t q[kInt8Block];
  float scale;
  std::int32_t sums[2];  // of q, of each half: weights with an offset need them
};

}  // namespace kvasir
