// The number formats a cached K or V row can have.
#pragma once

#include <array>
#include <cstdint>

namespace kvasir {

enum class KvFormat : std::uint8_t { kF32, kF16, kBF16 };

inline constexpr std::array kAllKvFormats{KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16};

}  // namespace kvasir
