// Descriptions of matrices for the copy engine of Hopper (cp.async.bulk.tensor).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "backend/cuda/product.h"

namespace kvasir::cuda {

enum class BoxSwizzle : std::uint8_t { kNone, k32, k128 };

// A matrix of 16-bit numbers that is copied in boxes of 64 numbers (128 bytes) by box_rows rows, 16-byte chunks
// permuted as wgmma's 128-byte swizzle wants them, or not at all; zeros beyond the matrix.
struct BoxedMatrix {
  const void* data = nullptr;
  std::int64_t ld = 0;
  int rows = 0;
  int cols = 0;
  int box_rows = 0;
  Number number = Number::kBF16;
  BoxSwizzle swizzle = BoxSwizzle::k128;
};

inline constexpr int kBoxCols = 64;

// Asks the driver once per process for its encoder. Throws Error where it has none.
CUtensorMap make_tensor_map(const BoxedMatrix& matrix);

// The same with three indices, the fastest first, in boxes whose first side has as many bytes as the swizzle, if any.
struct BoxedRows {
  const void* data = nullptr;
  std::int64_t sizes[3] = {};
  std::int64_t strides[2] = {};  // in bytes, of the second and the third index, in any order
  int box[3] = {};
  Number number = Number::kBF16;
  BoxSwizzle swizzle = BoxSwizzle::k128;
};
CUtensorMap make_tensor_map_3d(const BoxedRows& rows);

}  // namespace kvasir::cuda
