// silu(gate) * up, in the two ways that all kernels have.
#pragma once

#include "backend/cuda/numbers.cuh"
#include "backend/cuda/tensor_core.cuh"

namespace kvasir::cuda {

__device__ inline float gated(float gate, float up) { return __fmul_rn(__fdiv_rn(gate, 1.0F + expf(-gate)), up); }

// Of bf16, for a bf16: wrong by some 2^-20 of it at most, and made in a few instructions.
__device__ inline __nv_bfloat16 gated(__nv_bfloat16 gate, __nv_bfloat16 up) {
  constexpr float kLog2E = 1.4426950408889634F;
  const float x = __bfloat162float(gate);
  float share;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(share) : "f"(__fadd_rn(1.0F, exp2_fast(__fmul_rn(x, -kLog2E)))));
  return to_number(__fmul_rn(__fmul_rn(x, share), __bfloat162float(up)), __nv_bfloat16());
}

// Of sums, which are rounded before.
__device__ inline __nv_bfloat16 gated_rounded(float gate, float up) {
  return gated(to_number(gate, __nv_bfloat16()), to_number(up, __nv_bfloat16()));
}

}  // namespace kvasir::cuda
