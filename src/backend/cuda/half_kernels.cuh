// Choosing a kernel over f16 or bf16 and usual heads.
#pragma once

#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/product.h"
#include "backend/cuda/tensor_core.cuh"

namespace kvasir::cuda {

// launch<Half, kDim>(number), of K and V of this layout. REQUIRES: usual_blocks(), and is_half(layout.k_format).
template <class Launch>
void launch_half(const KvLayout& layout, const Launch& launch) {
  const bool small = layout.shape.k_dim == 64;
  if (layout.k_format == KvFormat::kBF16) {
    return small ? launch.template operator()<HalfBF16, 64>(Number::kBF16)
                 : launch.template operator()<HalfBF16, 128>(Number::kBF16);
  }
  small ? launch.template operator()<HalfF16, 64>(Number::kF16)
        : launch.template operator()<HalfF16, 128>(Number::kF16);
}

}  // namespace kvasir::cuda
