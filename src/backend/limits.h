// What a device can do at best, measured: the yardsticks that `kvasir bench` reports shares of.
#pragma once

#include "backend/weight_type.h"

namespace kvasir {

// Each call measures anew, and gives the best of a few runs: a machine's limits change with time, so a share of them
// is only sound when they were taken beside what is compared with them.
class Limits {
 public:
  virtual ~Limits() = default;

  virtual double read_bytes_per_second() = 0;  // reading, and doing nothing with, the memory; 0: too little to tell
  // Multiply-adds, two operations each, as products with weights of this type do them; 0: not known.
  virtual double flops_per_second(DType weights) = 0;
};

}  // namespace kvasir
