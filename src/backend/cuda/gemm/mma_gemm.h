// GEMMs by mma.sync, for every device, shape and row count, with the bits of gemm.h.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/gemm.h"

namespace kvasir::cuda {

// REQUIRES: gemm.number is kBF16 or kF16.
void multiply_mma(const GemmArgs& gemm, cudaStream_t stream);

}  // namespace kvasir::cuda
