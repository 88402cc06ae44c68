// What this machine can do at best, measured: the yardsticks that `kvasir bench` reports shares of.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/cpu/isa.h"

namespace kvasir {

struct MachineLimits {
  double read_bytes_per_second = 0;  // reading, and doing nothing with, the memory given
  double flops_per_second = 0;       // float32 fused multiply-adds in registers, two operations each
};

// The best of several runs, with so many threads, over the memory that the measured program reads. One reading at one
// time: where a machine's bandwidth changes with time, a share of it can be off by as much.
MachineLimits measure_machine(Isa isa, int threads, const std::vector<std::span<const std::byte>>& memory);

}  // namespace kvasir
