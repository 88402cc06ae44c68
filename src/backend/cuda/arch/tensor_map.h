// Tensor maps (CUtensorMap): what TMA knows of a matrix.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "backend/cuda/gemm/gemm.h"

namespace kvasir::cuda {

enum class TmaSwizzle : std::uint8_t { kNone, k32, k128 };

// A matrix of 16-bit numbers, copied in boxes of 64 numbers (128 bytes) by box_rows rows, with the swizzle that wgmma
// wants, or none. TMA fills what lies beyond the matrix with zeros.
struct TmaMatrix {
  const void* data = nullptr;
  std::int64_t ld = 0;
  int rows = 0;
  int cols = 0;
  int box_rows = 0;
  Number number = Number::kBF16;
  TmaSwizzle swizzle = TmaSwizzle::k128;
};

inline constexpr int kBoxCols = 64;

// Throws Error if the driver has no encoder for tensor maps.
CUtensorMap make_tensor_map(const TmaMatrix& matrix);

// A tensor of three dimensions, fastest first. The first side of a box has as many bytes as the swizzle, if any.
struct TmaTensor3d {
  const void* data = nullptr;
  std::int64_t sizes[3] = {};
  std::int64_t strides[2] = {};  // in bytes, of the second and third dimension, in any order
  int box[3] = {};
  Number number = Number::kBF16;
  TmaSwizzle swizzle = TmaSwizzle::k128;
};
CUtensorMap make_tensor_map_3d(const TmaTensor3d& rows);

}  // namespace kvasir::cuda
