// A tile of a GEMM in float32; f32_gemm.h says in which order it adds.
#pragma once

#include "backend/cuda/gemm/gemm.h"

namespace kvasir::cuda {

inline constexpr int kF32Warps = 4;
inline constexpr int kF32Depth = 128;  // of k, 4 a lane
inline constexpr unsigned kF32Lanes = 0xffffffffU;

__device__ inline float4 load4(const float* row, int k, int inputs) {
  return k < inputs ? *reinterpret_cast<const float4*>(row + k) : float4{0, 0, 0, 0};
}

// A warp has kRows rows and kOutputs outputs; its lanes hold the partial sums.
template <int kRows, int kOutputs>
__device__ void multiply_f32_tile(const GemmArgs& p, int first_output, int first_row) {
  if (first_output >= p.outputs) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float* w[kOutputs];
  const float* x[kRows];
#pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    w[o] = static_cast<const float*>(p.w) + min(first_output + o, p.outputs - 1) * p.ld_w;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r] = static_cast<const float*>(p.x) + min(first_row + r, p.rows - 1) * p.ld_x;

  float sums[kRows][kOutputs] = {};
#pragma unroll 2
  for (int k = lane * 4; k < p.inputs; k += kF32Depth) {
    float4 weights[kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) weights[o] = load4(w[o], k, p.inputs);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 row = load4(x[r], k, p.inputs);
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        float sum = sums[r][o];
        sum = fmaf(weights[o].x, row.x, sum);
        sum = fmaf(weights[o].y, row.y, sum);
        sum = fmaf(weights[o].z, row.z, sum);
        sums[r][o] = fmaf(weights[o].w, row.w, sum);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      float sum = sums[r][o];
#pragma unroll
      for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(kF32Lanes, sum, apart);
      if (lane == (r * kOutputs + o) % 32 && first_row + r < p.rows && first_output + o < p.outputs) {
        const int output = first_output + o;
        p.out[(first_row + r) * p.ld_out + output] = p.bias == nullptr ? sum : sum + p.bias[output];
      }
    }
  }
}

}  // namespace kvasir::cuda
