#pragma once

#include <bit>
#include <cstdint>

#include "layout/host_device.h"
#include "layout/kv_format.h"

namespace kvasir {

// IEEE binary16. Values beyond ±65504 become infinities, as the hardware's conversion makes them.
struct CodecF16 {
  using Stored = std::uint16_t;
  static constexpr KvFormat kFormat = KvFormat::kF16;
  static constexpr const char* kName = "f16";

  KVASIR_HD static float decode(Stored stored) {
    const std::uint32_t sign = static_cast<std::uint32_t>(stored & 0x8000U) << 16;
    const std::uint32_t exponent = stored >> 10 & 0x1fU;
    const std::uint32_t mantissa = stored & 0x3ffU;
    if (exponent == 0x1fU)
      return std::bit_cast<float>(sign | 0x7f800000U | mantissa << 13 | (mantissa ? 0x400000U : 0U));
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112U) << 23 | mantissa << 13);
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // zero or subnormal: exact
    return sign ? -magnitude : magnitude;
  }

  KVASIR_HD static Stored encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<Stored>(bits >> 16 & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<Stored>(sign | 0x7e00U | (magnitude >> 13 & 0x3ffU));
    if (magnitude >= 0x477ff000U) return static_cast<Stored>(sign | 0x7c00U);  // rounds to infinity
    if (magnitude < 0x38800000U) {
      // Subnormal result: adding 0.5 aligns the float's last bit with binary16's 2^-24, and rounds to nearest even.
      const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<Stored>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000U));
    }
    return static_cast<Stored>(sign | (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U)) >> 13);
  }
};

}  // namespace kvasir
