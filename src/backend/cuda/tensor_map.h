// Descriptions of matrices for the copy engine of Hopper (cp.async.bulk.tensor).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "backend/cuda/product.h"

namespace kvasir::cuda {

// A matrix of 16-bit numbers that is copied in boxes of 64 numbers (128 bytes) by box_rows rows, 16-byte chunks
// permuted as wgmma's 128-byte swizzle wants them; zeros beyond the matrix.
struct BoxedMatrix {
  const void* data = nullptr;
  std::int64_t ld = 0;
  int rows = 0;
  int cols = 0;
  int box_rows = 0;
  Number number = Number::kBF16;
};

inline constexpr int kBoxCols = 64;

// Asks the driver once per process for its encoder. Throws Error where it has none.
CUtensorMap make_tensor_map(const BoxedMatrix& matrix);

}  // namespace kvasir::cuda
