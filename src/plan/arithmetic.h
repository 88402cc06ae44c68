// Sums that saturate instead of wrapping, and the search for the largest number that still fits.
#pragma once

#include <cstdint>
#include <limits>

namespace kvasir {

inline std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

inline std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

// The largest n in [least, most] that holds, or least - 1. Requires: once holds(n) is false it stays false.
template <class Predicate>
std::int64_t largest(std::int64_t least, std::int64_t most, const Predicate& holds) {
  std::int64_t below = least - 1;  // holds, or is nothing
  std::int64_t above = most + 1;   // does not hold, or is past the end
  while (above - below > 1) {
    const std::int64_t middle = below + (above - below) / 2;
    (holds(middle) ? below : above) = middle;
  }
  return below;
}

}  // namespace kvasir
