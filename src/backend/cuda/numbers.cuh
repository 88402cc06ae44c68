// Numbers as products take them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace kvasir::cuda {

inline constexpr float kLargestF16 = 65504.0F;

__device__ inline __nv_bfloat16 to_number(float value, __nv_bfloat16) { return __float2bfloat16_rn(value); }
// Not fminf and fmaxf, which would make numbers of NaNs.
__device__ inline __half to_number(float value, __half) {
  return __float2half_rn(value > kLargestF16 ? kLargestF16 : value < -kLargestF16 ? -kLargestF16 : value);
}
__device__ inline float to_number(float value, float) { return value; }

}  // namespace kvasir::cuda
