#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/row_walk.cuh"

namespace kvasir::cuda {
namespace {

constexpr float kLn2 = 0.6931471805599453F;

// A warp for each row of each tile and KV head.
template <int kMaxDim>
__global__ void merge(const AttentionArgs args) {
  const int lane = threadIdx.x;
  const AttentionTile tile = args.tiles[blockIdx.x];
  const int row = blockIdx.y;
  const int kv_head = blockIdx.z;
  if (row >= tile.tokens * args.heads_of_tile) return;
  const SequenceView& sequence = args.sequences[tile.sequence];
  const int batch_row = sequence.first_row + tile.first_token + row / args.heads_of_tile;
  const int head = kv_head * args.heads_per_kv + tile.first_head + row % args.heads_of_tile;
  const int v_dim = args.view.layout.shape.v_dim;
  constexpr int kMost = kMaxDim / 32;  // numbers of a lane
  constexpr int kAtOnce = kMaxDim <= 128 ? 8 : 4;  // splits on their way together
  float o[kMost] = {};
  SoftmaxState sum;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.z) * kTileRows;  // to the next split's sums
  std::int64_t part =
      (static_cast<std::int64_t>(tile.first_item - args.first_item) * gridDim.z + kv_head) * kTileRows + row;
  for (int split = 0; split < tile.splits(); split += kAtOnce) {
    SoftmaxState states[kAtOnce];
    float next[kAtOnce][kMost];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i, part += step) {
      if (split + i >= tile.splits()) break;
      states[i] = args.part_states[part];
#pragma unroll
      for (int j = 0; j < kMost; ++j) {
        const int dim = j * 32 + lane;
        next[i][j] = dim < v_dim ? args.part_out[part * args.v_stride + dim] : 0.0F;
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (split + i >= tile.splits()) break;
      const Fold by = fold(sum, states[i]);
      sum = by.state;
#pragma unroll
      for (int j = 0; j < kMost; ++j) o[j] = fold(by, o[j], next[i][j]);
    }
  }
  const float inverse = sum.d == 0.0F ? 0.0F : __frcp_rn(sum.d);
  float* to = args.out.data + batch_row * args.out.stride + head * v_dim;
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (i * 32 + lane < v_dim) to[i * 32 + lane] = __fmul_rn(o[i], inverse);
  }
  if (lane == 0 && args.states != nullptr) {
    const int heads = args.heads_per_kv * args.view.layout.shape.heads;
    args.states[static_cast<std::int64_t>(batch_row) * heads + head] = {__fmul_rn(sum.m, kLn2), sum.d};
  }
}

// The same sums as merge_part_rows(), a warp for each row and head.
__global__ void merge_two(const MergeRows rows) {
  const RowOfBatch place = row_of_batch(rows.sequences, blockIdx.x);
  const int row = rows.sequences[place.sequence].first_row + place.row;
  const int head = blockIdx.y;
  const int dim = rows.into.cols / rows.heads;
  const std::int64_t at = static_cast<std::int64_t>(row) * rows.heads + head;
  const SoftmaxState first = rows.into_states[at];
  const SoftmaxState second = rows.from_states[at];
  const SoftmaxMerge merged = kvasir::merge(first, second);
  if (merged.state.empty()) return;
  const float scale_first = first.d * merged.first_scale / merged.state.d;
  const float scale_second = second.d * merged.second_scale / merged.state.d;
  float* x = rows.into.data + row * rows.into.stride + head * dim;
  const float* y = rows.from.data + row * rows.from.stride + head * dim;
  for (int i = threadIdx.x; i < dim; i += 32) x[i] = __fmaf_rn(x[i], scale_first, __fmul_rn(y[i], scale_second));
  __syncwarp();
  if (threadIdx.x == 0) rows.into_states[at] = merged.state;
}

}  // namespace

void merge_splits(const AttentionArgs& args, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(kTileRows / args.heads_of_tile * args.heads_of_tile);
  const dim3 grid(static_cast<unsigned>(args.tile_count), rows, static_cast<unsigned>(args.view.layout.shape.heads));
  const int dim = args.view.layout.shape.v_dim;
  const auto kernel = dim <= 64 ? merge<64> : dim <= 128 ? merge<128> : merge<256>;
  kernel<<<grid, 32, 0, stream>>>(args);
  check(cudaGetLastError(), "merging splits");
}

void merge_rows(const MergeRows& rows, int row_count, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(row_count), static_cast<unsigned>(rows.heads));
  merge_two<<<grid, 32, 0, stream>>>(rows);
  check(cudaGetLastError(), "merging attention");
}

}  // namespace kvasir::cuda
