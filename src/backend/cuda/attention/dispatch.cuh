// Dispatch over head sizes and 16-bit types of the usual blocks.
#pragma once

#include "backend/cuda/arch/tensor_core.cuh"
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/gemm/gemm.h"

namespace kvasir::cuda {

// Calls launch<kDim>() with the head size of this layout. REQUIRES: it is 64 or 128.
template <class Launch>
void launch_dim(const KvLayout& layout, const Launch& launch) {
  layout.shape.k_dim == 64 ? launch.template operator()<64>() : launch.template operator()<128>();
}

// Calls launch<Half, kDim>(number), for K and V of this layout. REQUIRES: usual_blocks(), is_half(layout.k_format).
template <class Launch>
void launch_half(const KvLayout& layout, const Launch& launch) {
  launch_dim(layout, [&]<int kDim>() {
    layout.k_format == KvFormat::kBF16 ? launch.template operator()<HalfBF16, kDim>(Number::kBF16)
                                       : launch.template operator()<HalfF16, kDim>(Number::kF16);
  });
}

}  // namespace kvasir::cuda
