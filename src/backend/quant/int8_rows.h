// Rows of activations as they meet quantized weights: integers of 8 bits. Products are then sums of small integers,
// which are exact in any order.
//
// Beside weights in blocks of 32, blocks of 32: x = scale q, scale = largest / 127, q = x * (127 / largest) to the
// nearest, ties to even.
//
// Beside weights in blocks of 256 (the *_k types), groups of 256 with one unit: x = unit q 2^shift, with a shift for
// each 32. The part with the largest number has kMostShift, so unit = largest / (127 * 2^kMostShift); a part has one
// less for each time that its own largest number, doubled, is still no larger. So integers of a whole group can be
// added up before a number of the row is multiplied with, and parts without large numbers are still held finely: the
// error is half that of a plain group of 256, and one and a half times that of blocks of 32, as divergence of next
// tokens (bench/RESULTS.md).
//
// Where the largest number is below kTiniest all is 0.
#pragma once

#include <cstdint>

namespace kvasir {

inline constexpr int kInt8Block = 32;
inline constexpr int kInt8Group = 256;
inline constexpr int kMostShift = 3;
inline constexpr float kTiniest = 1e-30F;

struct Int8Block {
  std::int8_t q[kInt8Block];
  float scale;
  std::int32_t sum;  // of q: weights with an offset need it
};

struct Int8Group {
  std::int8_t q[kInt8Group];
  float unit;
  std::int32_t shifts[kInt8Group / kInt8Block];
  std::int32_t sums[kInt8Group / 16];  // of q, of each 16
};

// The shift of a part, by the largest number in it and in its group.
constexpr int shift_of(float largest, float of_group) {
  int shift = kMostShift;
  for (; shift > 0 && 2 * largest <= of_group; --shift) largest *= 2;
  return shift;
}

}  // namespace kvasir
