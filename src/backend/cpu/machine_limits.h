// What this machine's processors can do at best.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/limits.h"
#include "backend/tensor.h"
#include "base/thread_pool.h"

namespace kvasir {

class MachineLimits final : public Limits {
 public:
  // `memory` is what the measured program reads; it outlives this.
  MachineLimits(Isa isa, int threads, const std::vector<std::span<const std::byte>>& memory);

  double read_bytes_per_second() override;
  // In registers: of bf16 pairs and of bytes where the instruction set has dot products, of float32 elsewhere.
  double flops_per_second(DType weights) override;

 private:
  static constexpr size_t kSinkStep = 16;  // a cache line a thread

  float& sink(int thread) { return sink_[static_cast<size_t>(thread) * kSinkStep]; }

  Isa isa_;
  ThreadPool pool_;
  std::vector<std::span<const float>> pieces_;
  std::vector<float> sink_;  // keeps the compiler from leaving the work out
};

}  // namespace kvasir
