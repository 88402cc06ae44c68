// What this machine can do at best, measured: the yardsticks that `kvasir bench` reports shares of.
#pragma once

#include "backend/cpu/isa.h"

namespace kvasir {

struct MachineLimits {
  double read_bytes_per_second = 0;  // sixteen streams a thread, far more memory than the caches hold
  double flops_per_second = 0;       // float32 fused multiply-adds in registers, two operations each
};

// The best of several short runs, each about 50 ms, with so many threads.
MachineLimits measure_machine(Isa isa, int threads);

}  // namespace kvasir
