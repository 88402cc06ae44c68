// What this machine can do at best, measured: the yardsticks that `kvasir bench` reports shares of.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/tensor.h"
#include "base/thread_pool.h"

namespace kvasir {

// Each call measures anew, and gives the best of a few runs: a machine's limits change with time, so a share of them
// is only sound when they were taken beside what is compared with them.
class MachineLimits {
 public:
  // `memory` is what the measured program reads; it outlives this.
  MachineLimits(Isa isa, int threads, const std::vector<std::span<const std::byte>>& memory);

  double read_bytes_per_second();  // reading, and doing nothing with, the memory; 0: it is too little to tell
  // Multiply-adds in registers, two operations each, as products with weights of this type do them: of bf16 pairs and
  // of bytes where the instruction set has dot products, of float32 elsewhere.
  double flops_per_second(DType weights);

 private:
  static constexpr size_t kSinkStep = 16;  // a cache line a thread

  float& sink(int thread) { return sink_[static_cast<size_t>(thread) * kSinkStep]; }

  Isa isa_;
  ThreadPool pool_;
  std::vector<std::span<const float>> pieces_;
  std::vector<float> sink_;  // keeps the compiler from leaving the work out
};

}  // namespace kvasir
