// Products of float32 weights and rows, without tensor cores.
//
// The order of a sum, whatever the rows and outputs: 32 partial sums, the l-th over k in [128 j + 4 l, 128 j + 4 l +
// 4) in ascending order with fused multiply-adds; then partial sums 16 apart are added, then 8, 4, 2 and 1; then the
// bias.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/product.h"

namespace kvasir::cuda {

void multiply_f32(const Product& product, cudaStream_t stream);

}  // namespace kvasir::cuda
