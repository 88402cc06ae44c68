// silu(gate) * up, in the two precisions that all kernels share.
#pragma once

#include "backend/cuda/arch/numbers.cuh"
#include "backend/cuda/arch/tensor_core.cuh"

namespace kvasir::cuda {

__device__ inline float silu_mul(float gate, float up) { return __fmul_rn(__fdiv_rn(gate, 1.0F + expf(-gate)), up); }

// For bf16 it takes a few instructions, with a relative error of about 2^-20.
__device__ inline __nv_bfloat16 silu_mul(__nv_bfloat16 gate, __nv_bfloat16 up) {
  constexpr float kLog2E = 1.4426950408889634F;
  const float x = __bfloat162float(gate);
  float share;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(__fadd_rn(1.0F, exp2_fast(__fmul_rn(x, -kLog2E)))));
  return to_number(__fmul_rn(__fmul_rn(x, share), __bfloat162float(up)), __nv_bfloat16());
}

// Float32 sums are rounded to bf16 first.
__device__ inline __nv_bfloat16 silu_mul_rounded(float gate, float up) {
  return silu_mul(to_number(gate, __nv_bfloat16()), to_number(up, __nv_bfloat16()));
}

}  // namespace kvasir::cuda
