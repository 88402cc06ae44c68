// The number formats a cached K or V row can have.
#pragma once

#include <array>
#include <cstdint>

namespace kvasir {

enum class KvFormat : std::uint8_t { kF32, kF16, kBF16, kInt8, kInt4, kInt2, kE4M3, kE5M2, kTop50, kTop25 };

inline constexpr std::array kAllKvFormats{KvFormat::kF32,   KvFormat::kF16,  KvFormat::kBF16, KvFormat::kInt8,
                                          KvFormat::kInt4,  KvFormat::kInt2, KvFormat::kE4M3, KvFormat::kE5M2,
                                          KvFormat::kTop50, KvFormat::kTop25};

}  // namespace kvasir
