// Conversions from float32 to the types that GEMMs multiply.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace kvasir::cuda {

inline constexpr float kLargestF16 = 65504.0F;

__device__ inline __nv_bfloat16 to_number(float value, __nv_bfloat16) { return __float2bfloat16_rn(value); }
// Clamps to the largest finite f16. fminf and fmaxf would turn NaN into a number.
__device__ inline __half to_number(float value, __half) {
  return __float2half_rn(value > kLargestF16 ? kLargestF16 : value < -kLargestF16 ? -kLargestF16 : value);
}
__device__ inline float to_number(float value, float) { return value; }

}  // namespace kvasir::cuda
