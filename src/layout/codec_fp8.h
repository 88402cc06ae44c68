#pragma once

#include <bit>
#include <cstdint>

#include "layout/host_device.h"
#include "layout/kv_format.h"

namespace kvasir {

// Eight bits with an exponent. encode rounds to nearest even and stops at the largest finite number: a row is divided
// by its scale first (row_codec.h), so that its largest number is about that one. It never makes a NaN or an
// infinity.
template <int kMantissaBits, int kBias, std::uint8_t kLargestCode>
struct Fp8 {
  using Stored = std::uint8_t;

  KVASIR_HD static Stored encode(float value) {
    constexpr int kDropped = 23 - kMantissaBits;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 24 & 0x80U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    std::uint32_t code = 0;
    if (magnitude < static_cast<std::uint32_t>(128 - kBias) << 23) {
      // Subnormal: adding this aligns the float's last bit with the format's, and rounds to nearest even.
      constexpr auto kAligner = static_cast<std::uint32_t>(128 - kBias + kDropped) << 23;
      const float aligned = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAligner);
      code = std::bit_cast<std::uint32_t>(aligned) - kAligner;
    } else {
      const std::uint32_t rounding = (1U << (kDropped - 1)) - 1U + (magnitude >> kDropped & 1U);
      code = (magnitude - (static_cast<std::uint32_t>(127 - kBias) << 23) + rounding) >> kDropped;
    }
    return static_cast<Stored>(sign | (code < kLargestCode ? code : kLargestCode));
  }

  // Exact for every code that encode makes.
  KVASIR_HD static float decode(Stored stored) {
    const std::uint32_t magnitude = stored & 0x7fU;
    const std::uint32_t aligned = magnitude << (23 - kMantissaBits);  // as a float: too small by 2^(127 - bias)
    constexpr auto kFactor = static_cast<std::uint32_t>(127 + 127 - kBias) << 23;
    const float value = std::bit_cast<float>(aligned) * std::bit_cast<float>(kFactor);
    return (stored & 0x80U) != 0 ? -value : value;
  }
};

// 1.4.3 with one NaN and no infinities, up to 448.
struct CodecE4M3 : Fp8<3, 7, 0x7e> {
  static constexpr KvFormat kFormat = KvFormat::kE4M3;
  static constexpr const char* kName = "fp8_e4m3";
  static constexpr float kLargest = 448.0F;
};

// 1.5.2, the upper half of binary16, up to 57,344.
struct CodecE5M2 : Fp8<2, 15, 0x7b> {
  static constexpr KvFormat kFormat = KvFormat::kE5M2;
  static constexpr const char* kName = "fp8_e5m2";
  static constexpr float kLargest = 57344.0F;
};

}  // namespace kvasir
