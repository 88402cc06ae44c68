// How work grows with its input: the processor's time of f(8 n) over that of f(n), 8 where it is linear and 64 where
// it is quadratic, on a machine of any speed and with any neighbours.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ctime>

namespace kvasir::testing {

template <class F>
double growth_of_eightfold(F f, size_t n) {
  const auto time_of = [&](size_t size) {
    const std::clock_t begin = std::clock();
    f(size);
    return static_cast<double>(std::clock() - begin);
  };
  const double small = std::min(time_of(n), time_of(n));  // the first may have had to warm up
  return time_of(8 * n) / std::max(small, 1.0);
}

}  // namespace kvasir::testing
