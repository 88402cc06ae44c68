// Products through mma.sync: for every device, shape and number of rows, with the canonical bits (product.h).
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/product.h"

namespace kvasir::cuda {

// product.number is kBF16 or kF16.
void multiply_mma(const Product& product, cudaStream_t stream);

}  // namespace kvasir::cuda
