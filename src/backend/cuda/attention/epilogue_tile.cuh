// The epilogue of a tile whose sums one warp holds: outputs of all its rows, without another kernel.
//
// `each(sums, i, take)` calls take(dim, number) for all that the thread holds of its row `i` of two.
#pragma once

#include "backend/cuda/attention/decode/partial_sums.cuh"
#include "backend/cuda/attention/epilogue_row.cuh"
#include "backend/cuda/attention/tile_rows.cuh"

namespace kvasir::cuda {

// Writes straight from registers, since all other warps wait for this end.
template <int kDim, class Each>
__device__ void tile_epilogue(const TileRows& rows, const Sums<kDim>& sums, const Each& each) {
  const AttentionArgs& args = rows.args;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_pair() * 2 + i;
    if (row >= rows.count()) continue;
    const float inverse = inverse_of({sums.m[i], sums.d[i]});
    const int column = rows.head(row) * kDim;
    float* out = args.out.data + rows.batch_row(row) * args.out.stride + column;
    each(sums, i, [&](int dim, float number) { out[dim] = normalized(number, inverse); });
    const GemmInputRow gemm_row{args.also, rows.batch_row(row)};
    gemm_row.visit([&](auto numbers) {
      each(sums, i, [&](int dim, float number) { numbers.put(column + dim, normalized(number, inverse)); });
    });
    if (column == 0) gemm_row.pad(args.out.cols, lane_group(), 8);
    if (args.states != nullptr && lane_group() == 0) args.states[rows.state(row)] = natural({sums.m[i], sums.d[i]});
  }
}

// The same with hadamard_out. `smem` is the warp's own.
template <int kDim, class Each>
__device__ void hadamard_tile_epilogue(const TileRows& rows, const Sums<kDim>& sums, const Each& each,
                                       PartialSums<kDim>& smem) {
  auto* numbers = reinterpret_cast<float*>(smem.o);  // [kTileRows][kDim]
  static_assert(sizeof(smem.o) == sizeof(float) * kTileRows * kDim);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_pair() * 2 + i;
    each(sums, i, [&](int dim, float number) { numbers[row * kDim + dim] = number; });
    if (lane_group() == 0) smem.states[row] = {sums.m[i], sums.d[i]};
  }
  __syncwarp();
  const int dim = static_cast<int>(threadIdx.x) % 32 * 4;
  for (int row = 0; row < rows.count(); ++row) {
    float* of_row = numbers + row * kDim;
    MergedState all{{0, 0, 0, 0}, smem.state(row)};
    if (dim < kDim) all.o = *reinterpret_cast<const float4*>(of_row + dim);
    const RowEpilogue out(rows.args, rows.head(row), static_cast<int>(rows.batch_row(row)), of_row);
    out.write(all, dim);
    out.finish();
  }
  __syncwarp();
}

}  // namespace kvasir::cuda
