#include "backend/quant/row_codes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "base/check.h"

namespace kvasir {
namespace {

constexpr float kLargestInt8 = 127.0F;
constexpr float kSmallestScale = 0x1p-126F;  // smaller ones have no inverse
constexpr std::uint32_t kInfinity = 0x7f800000U;

// As bits, which are in the order of the magnitudes, and those of no numbers above all.
std::uint32_t largest_magnitude(std::span<const float> row) {
  std::uint32_t largest = 0;
  for (const float value : row) largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7fffffffU);
  return largest;
}

// To nearest, ties to even: adding 1.5 * 2^23 leaves no bits for a fraction.
std::uint8_t int8_code(float value) {
  constexpr float kNoFraction = 0x1.8p23F;
  const float level = std::clamp(value, -kLargestInt8, kLargestInt8) + kNoFraction - kNoFraction;
  return static_cast<std::uint8_t>(static_cast<std::int8_t>(level));
}

}  // namespace

float encode_codes(WeightQuantization form, std::span<const float> row, std::uint8_t* codes) {
  CHECK(form != WeightQuantization::kAsStored);
  const std::uint32_t largest = largest_magnitude(row);
  const float scale =
      std::bit_cast<float>(largest) / (form == WeightQuantization::kFp8 ? CodecE4M3::kLargest : kLargestInt8);
  if (largest >= kInfinity || scale < kSmallestScale) {
    std::fill_n(codes, row.size(), std::uint8_t{0});
    return largest >= kInfinity ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  }
  const float inverse = 1.0F / scale;
  if (form == WeightQuantization::kFp8) {
    for (size_t i = 0; i < row.size(); ++i) codes[i] = CodecE4M3::encode(row[i] * inverse);
  } else {
    for (size_t i = 0; i < row.size(); ++i) codes[i] = int8_code(row[i] * inverse);
  }
  return scale;
}

void round_to_codes(WeightQuantization form, std::span<float> row) {
  std::vector<std::uint8_t> codes(row.size());
  const float scale = encode_codes(form, row, codes.data());
  for (size_t i = 0; i < row.size(); ++i) row[i] = decode_code(form, codes[i]) * scale;
}

}  // namespace kvasir
