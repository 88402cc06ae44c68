// The rows of a tile in the batch, and what kernels write of them.
#pragma once

#include "backend/cuda/attention_math.cuh"

namespace kvasir::cuda {

// Row `row` of an item's tile, for one KV head.
struct TileRows {
  const AttentionArgs& args;
  const AttentionItem& item;
  int kv_head;

  __device__ int count() const { return item.tokens * args.heads_of_tile; }
  __device__ int head(int row) const {
    return kv_head * args.heads_per_kv + item.first_head + row % args.heads_of_tile;
  }
  __device__ std::int64_t state(int row) const {
    const std::int64_t batch_row = item.row + row / args.heads_of_tile;
    return batch_row * args.heads_per_kv * args.view.layout.shape.heads + head(row);
  }
  // What this thread's rows see.
  __device__ RowsOfWarp seen() const {
    RowsOfWarp out;
    out.first = item.query;
    out.last = item.query + item.tokens - 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = static_cast<int>(threadIdx.x) % 32 / 4 + i * 8;
      const bool has = row < count();
      out.query[i] = has ? item.query + row / args.heads_of_tile : out.last;
      out.factor[i] = args.scale;
      if (!has || args.q_scales == nullptr) continue;
      const float q_scale = args.q_scales[state(row)];  // 0: of a row of zeros, whose scores are 0 in any case
      if (q_scale != 0.0F) out.factor[i] = __fmul_rn(args.scale, q_scale);
    }
    return out;
  }
};

// The sums of a split, as item `index` of all items and KV heads.
template <int kDim>
__device__ void write_part(const TileRows& rows, std::int64_t index, const Sums<kDim>& sums) {
  const AttentionArgs& args = rows.args;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (g + i * 8 >= rows.count()) continue;
    const std::int64_t row = index * kTileRows + g + i * 8;
    float* to = args.part_out + row * args.v_stride;
#pragma unroll
    for (int tile = 0; tile < kDim / 8; ++tile) {
      if (tile * 8 + t * 2 < args.v_stride) {
        *reinterpret_cast<float2*>(to + tile * 8 + t * 2) = {sums.o[tile][i * 2], sums.o[tile][i * 2 + 1]};
      }
    }
    if (t == 0) args.part_states[row] = {sums.m[i], sums.d[i]};
  }
}

}  // namespace kvasir::cuda
