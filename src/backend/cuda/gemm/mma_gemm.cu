#include "backend/cuda/gemm/mma_gemm.h"
#include "backend/cuda/gemm/mma_tile.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

template <class Half, int kTiles>
__global__ void __launch_bounds__(kMmaThreads) mma_kernel(const __grid_constant__ GemmArgs p) {
  extern __shared__ uint4 mma_stages[];
  pdl_wait();
  multiply_mma_tile<Half, kTiles>(p, static_cast<int>(blockIdx.x) * kMmaOutputs,
                                  static_cast<int>(blockIdx.y) * kTiles * 8, mma_stages);
}

template <class Half, int kTiles>
void launch(const GemmArgs& gemm, cudaStream_t stream) {
  constexpr int kBytes = kMmaBytes<kTiles>;
  check(cudaFuncSetAttribute(mma_kernel<Half, kTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "mma_kernel's shared memory");
  const dim3 grid(static_cast<unsigned>((gemm.outputs + kMmaOutputs - 1) / kMmaOutputs),
                  static_cast<unsigned>((gemm.rows + kTiles * 8 - 1) / (kTiles * 8)));
  launch_pdl("mma_kernel", mma_kernel<Half, kTiles>, {grid, dim3(kMmaThreads), kBytes}, stream, gemm);
}

template <class Half>
void launch_for(const GemmArgs& gemm, cudaStream_t stream) {
  if (gemm.rows <= 8) return launch<Half, 1>(gemm, stream);
  if (gemm.rows <= 16) return launch<Half, 2>(gemm, stream);
  launch<Half, 8>(gemm, stream);
}

}  // namespace

void multiply_mma(const GemmArgs& gemm, cudaStream_t stream) {
  if (gemm.number == Number::kF16) return launch_for<HalfF16>(gemm, stream);
  launch_for<HalfBF16>(gemm, stream);
}

}  // namespace kvasir::cuda
