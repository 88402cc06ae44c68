// GEMMs in float32, without tensor cores.
//
// The order of a sum is fixed: 32 partial sums, the l-th over k in [128 j + 4 l, 128 j + 4 l + 4), ascending, by
// fused multiply-adds; then partial sums 16 apart are added, then 8, 4, 2 and 1; then the bias.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/gemm.h"

namespace kvasir::cuda {

void multiply_f32(const GemmArgs& gemm, cudaStream_t stream);

}  // namespace kvasir::cuda
