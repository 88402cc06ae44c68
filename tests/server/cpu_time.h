// What work costs the processor, for bounds that hold on a busy machine too.
#pragma once

#include <ctime>
#include <functional>

namespace kvasir::testing {

inline double cpu_seconds(const std::function<void()>& work) {
  const std::clock_t before = std::clock();
  work();
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
}

}  // namespace kvasir::testing
