#include "backend/cuda/experts/expert_args.h"
#include "backend/cuda/gemm/f32_tile.cuh"
#include "backend/cuda/gemm/mma_tile.cuh"
#include "backend/cuda/gemm/w8/w8_tile.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

// The GEMM of a tile; without rows where there is no such tile, or its expert's matrix is for another kernel.
__device__ GemmArgs gemm_of_tile(const ExpertGemm& p, unsigned index, const float*& scales) {
  GemmArgs out;
  if (static_cast<int>(index) >= *p.pairs.tile_count) return out;
  const ExpertTile tile = p.pairs.tiles[index];
  const ExpertMatrix matrix = p.matrices[tile.expert];
  if (matrix.number != p.number || matrix.form != p.form) return out;
  scales = matrix.scales;
  out.w = matrix.at;
  out.x = p.x + tile.first * p.row_bytes;
  out.bias = p.bias == nullptr ? nullptr : p.bias + static_cast<std::int64_t>(tile.expert) * p.bias_step;
  out.out = p.out + static_cast<std::int64_t>(tile.first) * p.ld_out;
  out.ld_w = p.inputs;
  out.ld_x = p.row_bytes / (p.number == Number::kF32 ? 4 : 2);
  out.ld_out = p.ld_out;
  out.rows = tile.rows;
  out.outputs = p.outputs;
  out.inputs = p.inputs;
  out.number = p.number;
  return out;
}

template <class Half, int kTiles>
__global__ void __launch_bounds__(kMmaThreads) multiply_mma_tiles(const __grid_constant__ ExpertGemm p) {
  extern __shared__ uint4 expert_stages[];
  pdl_wait();
  const float* scales = nullptr;
  const GemmArgs gemm = gemm_of_tile(p, blockIdx.y, scales);
  if (gemm.rows == 0) return;
  multiply_mma_tile<Half, kTiles>(gemm, static_cast<int>(blockIdx.x) * kMmaOutputs, 0, expert_stages);
}

constexpr int kW8Warps = 2;

template <class Convert, int kTiles>
__global__ void __launch_bounds__(kW8Warps * 32) multiply_w8_tiles(const __grid_constant__ ExpertGemm p) {
  pdl_wait();
  const float* scales = nullptr;
  const GemmArgs gemm = gemm_of_tile(p, blockIdx.y, scales);
  if (gemm.rows == 0) return;
  const int warp = static_cast<int>(blockIdx.x) * kW8Warps + static_cast<int>(threadIdx.x) / 32;
  multiply_w8_tile<Convert, kTiles>(gemm, scales, warp * kW8TileOutputs, 0);
}

constexpr int kF32Outputs = 4;  // of a warp

__global__ void __launch_bounds__(kF32Warps * 32) multiply_f32_tiles(const __grid_constant__ ExpertGemm p) {
  pdl_wait();
  const float* scales = nullptr;
  const GemmArgs gemm = gemm_of_tile(p, blockIdx.y, scales);
  const int warp = static_cast<int>(blockIdx.x) * kF32Warps + static_cast<int>(threadIdx.x) / 32;
  for (int first = 0; first < gemm.rows; first += kFewRows) {
    multiply_f32_tile<kFewRows, kF32Outputs>(gemm, warp * kF32Outputs, first);
  }
}

dim3 grid_of(const ExpertGemm& gemm, int outputs_of_cta) {
  return {static_cast<unsigned>((gemm.outputs + outputs_of_cta - 1) / outputs_of_cta),
          static_cast<unsigned>(gemm.pairs.most_tiles())};
}

template <class Half, int kTiles>
void launch_mma(const ExpertGemm& gemm, cudaStream_t stream) {
  const auto kernel = multiply_mma_tiles<Half, kTiles>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMmaBytes<kTiles>),
        "shared memory of experts");
  launch_pdl("products of experts", kernel, {grid_of(gemm, kMmaOutputs), dim3(kMmaThreads), kMmaBytes<kTiles>},
             stream, gemm);
}

template <class Convert, int kTiles>
void launch_w8(const ExpertGemm& gemm, cudaStream_t stream) {
  launch_pdl("products of experts", multiply_w8_tiles<Convert, kTiles>,
             {grid_of(gemm, kW8Warps * kW8TileOutputs), dim3(kW8Warps * 32)}, stream, gemm);
}

template <int kTiles>
void launch_for(const ExpertGemm& gemm, cudaStream_t stream) {
  if (gemm.form == WeightQuantization::kInt8) return launch_w8<Int8ToBf16, kTiles>(gemm, stream);
  if (gemm.form == WeightQuantization::kFp8) return launch_w8<Fp8ToBf16, kTiles>(gemm, stream);
  if (gemm.number == Number::kF16) return launch_mma<HalfF16, kTiles>(gemm, stream);
  launch_mma<HalfBF16, kTiles>(gemm, stream);
}

}  // namespace

void multiply_expert_rows(const ExpertGemm& gemm, cudaStream_t stream) {
  if (gemm.number == Number::kF32) {
    return launch_pdl("products of experts", multiply_f32_tiles,
                      {grid_of(gemm, kF32Warps * kF32Outputs), dim3(kF32Warps * 32)}, stream, gemm);
  }
  if (gemm.pairs.rows_of_tile == kFewRows) return launch_for<kFewRows / 8>(gemm, stream);
  launch_for<kManyRows / 8>(gemm, stream);
}

}  // namespace kvasir::cuda
