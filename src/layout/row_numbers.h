// What rows may hold once they are encoded, and how a number becomes an integer: shared by host and device, so that
// both write the same bytes.
#pragma once

#include <bit>
#include <cstdint>

#include "layout/host_device.h"

namespace kvasir {

inline constexpr float kLargestHeld = 65504.0F;
inline constexpr float kTiniestHeld = 1e-30F;
// 1.5 * 2^23: adding it rounds what is below 2^22 to an integer, ties to even.
inline constexpr float kRounder = 12582912.0F;

KVASIR_HD inline float held(float value) {
  if (!(value == value)) return 0.0F;
  return value < -kLargestHeld ? -kLargestHeld : value > kLargestHeld ? kLargestHeld : value;
}

// The next number up that bf16 holds: no number of the row outgrows the largest code.
KVASIR_HD inline float scale_above(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0xffffU) & 0xffff0000U);
}

}  // namespace kvasir
