// The rows of a tile: where they are in the batch, their queries, their partials.
#pragma once

#include "backend/cuda/attention/attention_math.cuh"
#include "layout/row_numbers.h"

namespace kvasir::cuda {

// The rows of an item's tile, for one KV head.
struct TileRows {
  const AttentionArgs& args;
  const WorkItem& item;
  int kv_head;

  __device__ int count() const { return item.tokens * args.heads_of_tile; }
  __device__ int head(int row) const {
    return kv_head * args.heads_per_kv + item.first_head + row % args.heads_of_tile;
  }
  __device__ std::int64_t batch_row(int row) const { return item.row + row / args.heads_of_tile; }
  __device__ std::int64_t state(int row) const {
    return batch_row(row) * args.heads_per_kv * args.view.layout.shape.heads + head(row);
  }
  // Positions of this thread's rows; rows that the tile lacks get its last position.
  __device__ RowsOfWarp positions() const {
    RowsOfWarp out{};
    out.first = item.query;
    out.last = item.query + item.tokens - 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane_pair() * 2 + i;
      out.query[i] = row < count() ? item.query + row / args.heads_of_tile : out.last;
    }
    return out;
  }
  // The factor of the scores of this thread's row `i` of two.
  __device__ float factor(int i) const {
    const int row = lane_pair() * 2 + i;
    if (row >= count() || args.q_scales == nullptr) return args.scale;
    const float q_scale = args.q_scales[state(row)];  // 0 for a row of zeros, whose scores are 0 anyway
    return q_scale != 0.0F ? __fmul_rn(args.scale, q_scale) : args.scale;
  }
  // Positions and factors.
  __device__ RowsOfWarp seen() const {
    RowsOfWarp out = positions();
    out.factor[0] = factor(0);
    out.factor[1] = factor(1);
    return out;
  }
};

// Copies prepared queries into shared memory, by one warp; missing rows become zeros.
template <int kDim>
__device__ void load_queries(const TileRows& rows, std::byte* to) {
  constexpr int kVecs = kDim / 8;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < kTileRows * kVecs; i += 32) {
    const int row = i / kVecs;
    const int vec = i % kVecs;
    uint4 value{0, 0, 0, 0};
    if (row < rows.count()) {
      value = reinterpret_cast<const uint4*>(rows.args.q + rows.state(row) * rows.args.k_stride)[vec];
    }
    *reinterpret_cast<uint4*>(to + row_vec<kDim>(row, vec)) = value;
  }
}

// The thread's row of float32 queries; null: the tile has no such row.
template <int kDim>
__device__ const float* query_of_thread(const TileRows& rows) {
  const Matrix& from = rows.args.queries;
  const int row = lane_group();
  if (row >= rows.count()) return nullptr;
  return from.data + rows.batch_row(row) * from.stride + rows.head(row) * kDim + lane_pair() * 2;
}
// Casts them into registers, which is all that 16-bit keys want.
template <class Half, int kDim>
__device__ void load_queries(const float* of_thread, Queries<kDim>& to) {
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
    const float2 two =
        of_thread != nullptr ? *reinterpret_cast<const float2*>(of_thread + i * 8) : float2{0.0F, 0.0F};
    to.b[i / 2][i % 2] = Half::pack(held(two.x), held(two.y));
  }
}

// Writes the partials of item `index`, counted over items and KV heads. `dim_of(tile, half)`: the dimension of
// elements 2 half and 2 half + 1 of a tile.
template <int kDim, class DimOf>
__device__ void write_partial(const TileRows& rows, std::int64_t index, const DimOf& dim_of, const Sums<kDim>& sums) {
  const AttentionArgs& args = rows.args;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_pair() * 2 + i;
    if (row >= rows.count()) continue;
    const std::int64_t at = index * kTileRows + row;
#pragma unroll
    for (int tile = 0; tile < kDim / 16; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int dim = dim_of(tile, half);
        if (dim < args.v_stride) args.partial_out[at * args.v_stride + dim] = sums.o[tile][half * 2 + i];
      }
    }
    if (lane_group() == 0) args.partial_states[at] = {sums.m[i], sums.d[i]};
  }
}
template <int kDim>
__device__ void write_partial(const TileRows& rows, std::int64_t index, const Sums<kDim>& sums) {
  write_partial(
      rows, index, [](int tile, int half) { return tile * 16 + half * 8 + lane_group(); }, sums);
}

}  // namespace kvasir::cuda
