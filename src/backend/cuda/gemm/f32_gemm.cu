#include <cuda_runtime.h>

#include "backend/cuda/gemm/f32_gemm.h"
#include "backend/cuda/gemm/f32_tile.cuh"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {
namespace {

template <int kRows, int kOutputs>
__global__ void f32_kernel(const __grid_constant__ GemmArgs p) {
  const int warp = static_cast<int>(blockIdx.x) * kF32Warps + static_cast<int>(threadIdx.x / 32);
  multiply_f32_tile<kRows, kOutputs>(p, warp * kOutputs, static_cast<int>(blockIdx.y) * kRows);
}

template <int kRows, int kOutputs>
void launch(const GemmArgs& gemm, cudaStream_t stream) {
  const int per_cta = kOutputs * kF32Warps;
  const dim3 grid(static_cast<unsigned>((gemm.outputs + per_cta - 1) / per_cta),
                  static_cast<unsigned>((gemm.rows + kRows - 1) / kRows));
  f32_kernel<kRows, kOutputs><<<grid, kF32Warps * 32, 0, stream>>>(gemm);
  check_launch("f32_kernel");
}

}  // namespace

void multiply_f32(const GemmArgs& gemm, cudaStream_t stream) {
  if (gemm.rows == 1) return launch<1, 2>(gemm, stream);
  if (gemm.rows <= 4) return launch<4, 2>(gemm, stream);
  launch<8, 4>(gemm, stream);
}

}  // namespace kvasir::cuda
