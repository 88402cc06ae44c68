#include <cuda_runtime.h>

#include "backend/cuda/gemm/f32_gemm.h"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kDepth = 128;  // of k, 4 a lane
constexpr unsigned kAll = 0xffffffffU;

__device__ float4 load4(const float* row, int k, int inputs) {
  return k < inputs ? *reinterpret_cast<const float4*>(row + k) : float4{0, 0, 0, 0};
}

// A warp has kRows rows and kOutputs outputs; its lanes hold the partial sums.
template <int kRows, int kOutputs>
__global__ void f32_kernel(const __grid_constant__ GemmArgs p) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_output = (static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x / 32)) * kOutputs;
  const int first_row = static_cast<int>(blockIdx.y) * kRows;
  if (first_output >= p.outputs) return;
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
  for (int k = lane * 4; k < p.inputs; k += kDepth) {
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
      for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(kAll, sum, apart);
      if (lane == (r * kOutputs + o) % 32 && first_row + r < p.rows && first_output + o < p.outputs) {
        const int output = first_output + o;
        p.out[(first_row + r) * p.ld_out + output] = p.bias == nullptr ? sum : sum + p.bias[output];
      }
    }
  }
}

template <int kRows, int kOutputs>
void launch(const GemmArgs& gemm, cudaStream_t stream) {
  const int per_cta = kOutputs * kWarps;
  const dim3 grid(static_cast<unsigned>((gemm.outputs + per_cta - 1) / per_cta),
                  static_cast<unsigned>((gemm.rows + kRows - 1) / kRows));
  f32_kernel<kRows, kOutputs><<<grid, kWarps * 32, 0, stream>>>(gemm);
  check_launch("f32_kernel");
}

}  // namespace

void multiply_f32(const GemmArgs& gemm, cudaStream_t stream) {
  if (gemm.rows == 1) return launch<1, 2>(gemm, stream);
  if (gemm.rows <= 4) return launch<4, 2>(gemm, stream);
  launch<8, 4>(gemm, stream);
}

}  // namespace kvasir::cuda
