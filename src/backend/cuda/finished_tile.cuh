// The end of rows whose sums one warp has: outputs of all rows of a tile, without another kernel.
//
// `each(sums, i, take)` calls take(dim, number) with all that the thread has of its row `i` of two.
#pragma once

#include "backend/cuda/finished_row.cuh"
#include "backend/cuda/folded_sums.cuh"
#include "backend/cuda/tile_rows.cuh"

namespace kvasir::cuda {

// Straight from registers: this is the end that all others wait for.
template <int kDim, class Each>
__device__ void finish_tile(const TileRows& rows, const Sums<kDim>& sums, const Each& each) {
  const AttentionArgs& args = rows.args;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_pair() * 2 + i;
    if (row >= rows.count()) continue;
    const float inverse = inverse_of({sums.m[i], sums.d[i]});
    const int column = rows.head(row) * kDim;
    float* out = args.out.data + rows.batch_row(row) * args.out.stride + column;
    each(sums, i, [&](int dim, float number) { out[dim] = normalized(number, inverse); });
    const ProductRow product{args.also, rows.batch_row(row)};
    product.visit([&](auto numbers) {
      each(sums, i, [&](int dim, float number) { numbers.put(column + dim, normalized(number, inverse)); });
    });
    if (column == 0) product.pad(args.out.cols, lane_group(), 8);
    if (args.states != nullptr && lane_group() == 0) args.states[rows.state(row)] = natural({sums.m[i], sums.d[i]});
  }
}

// The same where values are turned. `room` is the warp's own.
template <int kDim, class Each>
__device__ void finish_turned_tile(const TileRows& rows, const Sums<kDim>& sums, const Each& each,
                                   FoldedSums<kDim>& room) {
  auto* numbers = reinterpret_cast<float*>(room.o);  // [kTileRows][kDim]
  static_assert(sizeof(room.o) == sizeof(float) * kTileRows * kDim);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_pair() * 2 + i;
    each(sums, i, [&](int dim, float number) { numbers[row * kDim + dim] = number; });
    if (lane_group() == 0) room.states[row] = {sums.m[i], sums.d[i]};
  }
  __syncwarp();
  const int dim = static_cast<int>(threadIdx.x) % 32 * 4;
  for (int row = 0; row < rows.count(); ++row) {
    float* of_row = numbers + row * kDim;
    MergedSums all{{0, 0, 0, 0}, room.state(row)};
    if (dim < kDim) all.o = *reinterpret_cast<const float4*>(of_row + dim);
    const FinishedRow out(rows.args, rows.head(row), static_cast<int>(rows.batch_row(row)), of_row);
    out.write(all, dim);
    out.finish();
  }
  __syncwarp();
}

}  // namespace kvasir::cuda
