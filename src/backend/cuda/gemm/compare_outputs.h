// For measuring: random numbers, and whether two outputs agree.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/gemm/gemm.h"
#include "backend/tensor.h"

namespace kvasir::cuda {

struct Numbers {
  void* data = nullptr;  // [rows][ld], the first cols of each
  std::int64_t ld = 0;
  int rows = 0;
  int cols = 0;
  Number number = Number::kBF16;
};

// Uniform in (-scale, scale), rounded; determined by the seed.
void fill_random(const Numbers& to, float scale, std::uint64_t seed, cudaStream_t stream);

struct Tally {
  unsigned long long different = 0;  // in any bit
  unsigned long long nonzero = 0;    // of a's
};

// Adds to `tally`, on the device. a and b have the same shape.
void compare_outputs(Matrix a, Matrix b, Tally* tally, cudaStream_t stream);

}  // namespace kvasir::cuda
