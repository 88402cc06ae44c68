#pragma once

#include <bit>
#include <cstdint>

#include "layout/host_device.h"
#include "layout/kv_format.h"

namespace kvasir {

struct CodecBF16 {
  using Stored = std::uint16_t;
  static constexpr KvFormat kFormat = KvFormat::kBF16;
  static constexpr const char* kName = "bf16";

  KVASIR_HD static float decode(Stored stored) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16);
  }

  KVASIR_HD static Stored encode(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<Stored>(bits >> 16 | 0x40U);  // NaN stays NaN
    return static_cast<Stored>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
  }
};

}  // namespace kvasir
