#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/row_walk.cuh"

namespace kvasir::cuda {
namespace {

constexpr float kLn2 = 0.6931471805599453F;

// A thread block for each row of each tile and KV head, a thread for each number. All that is read is on its way at
// once, or as much as registers hold: this kernel waits for memory and does little else.
__global__ void merge(const AttentionArgs args) {
  const AttentionTile tile = args.tiles[blockIdx.x];
  const int row = static_cast<int>(blockIdx.y);
  const int kv_head = static_cast<int>(blockIdx.z);
  if (blockIdx.x == 0 && row == 0 && kv_head == 0 && threadIdx.x == 0) *args.taken = 0;  // for the next launch
  if (row >= tile.tokens * args.heads_of_tile) return;
  const SequenceView& sequence = args.sequences[tile.sequence];
  const int batch_row = sequence.first_row + tile.first_token + row / args.heads_of_tile;
  const int head = kv_head * args.heads_per_kv + tile.first_head + row % args.heads_of_tile;
  const int v_dim = args.view.layout.shape.v_dim;
  const int dim = min(static_cast<int>(threadIdx.x), v_dim - 1);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.z) * kTileRows;  // to the next split's sums
  std::int64_t part =
      (static_cast<std::int64_t>(tile.first_item - args.first_item) * gridDim.z + kv_head) * kTileRows + row;
  constexpr int kAtOnce = 16;
  float o = 0.0F;
  SoftmaxState sum;
  for (int split = 0; split < tile.splits(); split += kAtOnce) {
    SoftmaxState states[kAtOnce];
    float next[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i, part += step) {
      if (split + i >= tile.splits()) continue;
      states[i] = args.part_states[part];
      next[i] = args.part_out[part * args.v_stride + dim];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (split + i >= tile.splits()) break;
      const Fold by = fold(sum, states[i]);
      sum = by.state;
      o = fold(by, o, next[i]);
    }
  }
  const float inverse = sum.d == 0.0F ? 0.0F : __frcp_rn(sum.d);
  if (static_cast<int>(threadIdx.x) < v_dim) {
    args.out.data[batch_row * args.out.stride + head * v_dim + dim] = __fmul_rn(o, inverse);
  }
  if (threadIdx.x == 0 && args.states != nullptr) {
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
  const dim3 grid(static_cast<unsigned>(args.tile_count), static_cast<unsigned>(args.most_rows),
                  static_cast<unsigned>(args.view.layout.shape.heads));
  const auto threads = static_cast<unsigned>((args.view.layout.shape.v_dim + 31) / 32 * 32);
  merge<<<grid, threads, 0, stream>>>(args);
  check_launch("merging splits");
}

void merge_rows(const MergeRows& rows, int row_count, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(row_count), static_cast<unsigned>(rows.heads));
  merge_two<<<grid, 32, 0, stream>>>(rows);
  check_launch("merging attention");
}

}  // namespace kvasir::cuda
