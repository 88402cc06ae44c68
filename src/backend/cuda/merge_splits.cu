#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/finished_row.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/row_walk.cuh"

namespace kvasir::cuda {
namespace {

constexpr int kRowsAtOnce = 4;  // of a tile, by a thread block: a warp for each

// Sums over neighbouring splits: `count` of them, each over `splits` splits but perhaps for the last. That of the
// first is in place `first`, the others are as many places behind each other as they have splits, or 1; no place is
// behind `last`.
struct Run {
  Parts parts;
  int first, distance, last;
  int count;
  int split;   // the first
  int splits;  // of a sum
};

// The sums that a row has, in the order of the context: of the prefix that its sequence shares, of its sinks, of the
// rest.
struct RowParts {
  const AttentionTile& tile;
  Parts begun, own;
  int stride;      // of a row
  int own_splits;  // of a sum; 1 where there are sinks

  __device__ Run run(int index) const {
    if (index == 0) return {begun, 0, 1, tile.begun.count - 1, tile.begun.count, 0, tile.begun.splits};
    if (index == 1) return {own, 0, 1, tile.sink_splits - 1, tile.sink_splits, 0, 1};
    const int splits = tile.end_split - tile.first_split;
    const int count = own_splits == 1 ? splits : spans_of(splits);
    const int first = tile.sink_splits + own_splits - 1;  // in the place of its last split
    return {own, first, own_splits, tile.splits() - 1, count, tile.first_split, own_splits};
  }

  // All of a lane's numbers. What is read is on its way at once, or as much as registers hold: this kernel waits for
  // memory and does little else. Lane i, and i + 16, hold the state of the i-th.
  __device__ MergedSums merged() const {
    constexpr int kAtOnce = 16;
    MergedSums all, of_span;
    int span_at_hand = 0;
#pragma unroll 1
    for (int index = 0; index < 3; ++index) {
      const Run at = run(index);
#pragma unroll 1
      for (int first = 0; first < at.count; first += kAtOnce) {
        const auto place = [&](int i) -> std::int64_t { return min(at.first + (first + i) * at.distance, at.last); };
        float4 next[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const float* from = at.parts.sums + place(i) * (at.parts.step * stride);
          if (first + i < at.count) next[i] = *reinterpret_cast<const float4*>(from);
        }
        const SoftmaxState state = at.parts.states[place(static_cast<int>(threadIdx.x) % kAtOnce) * at.parts.step];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (first + i >= at.count) break;
          const int span = (at.split + (first + i) * at.splits) / kSpanSplits;
          if (span != span_at_hand) {
            all.add(of_span);
            of_span = {};
            span_at_hand = span;
          }
          of_span.add({next[i], {__shfl_sync(0xffffffff, state.m, i), __shfl_sync(0xffffffff, state.d, i)}});
        }
      }
    }
    all.add(of_span);
    return all;
  }
};

__global__ void __launch_bounds__(kRowsAtOnce * 32, 4) merge(const AttentionArgs args) {
  extern __shared__ float turned[];  // [kRowsAtOnce][v_dim], where rows are
  let_followers_start();
  const AttentionTile tile = args.tiles[blockIdx.x];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const RowOfTile row{args, tile, static_cast<int>(blockIdx.y) * kRowsAtOnce + warp, static_cast<int>(blockIdx.z)};
  const int batch_row = args.sequences[tile.sequence].first_row + tile.first_token + row.token();
  wait_for_forerunners();
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0)
    *args.taken = 0;  // for the next launch
  if (row.row >= tile.tokens * args.heads_of_tile) return;
  const int v_dim = args.view.layout.shape.v_dim;
  for (int first = 0; first < v_dim; first += kDimsAtOnce) {
    const int dim = first + lane * 4;
    const RowParts parts{tile, row.begun(dim), row.own(dim), args.v_stride, args.folds_spans ? kSpanSplits : 1};
    const MergedSums sums = parts.merged();
    FinishedRow(args, row.head(), batch_row, turned + warp * v_dim).write(sums, dim);
  }
  FinishedRow(args, row.head(), batch_row, turned + warp * v_dim).finish();
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
  const dim3 grid(static_cast<unsigned>(args.tile_count),
                  static_cast<unsigned>((args.most_rows + kRowsAtOnce - 1) / kRowsAtOnce),
                  static_cast<unsigned>(args.view.layout.shape.heads));
  const size_t shared =
      args.turns ? kRowsAtOnce * sizeof(float) * static_cast<size_t>(args.view.layout.shape.v_dim) : 0;
  launch_early("merging splits", merge, {grid, dim3(kRowsAtOnce * 32), shared}, stream, args);
}

void merge_rows(const MergeRows& rows, int row_count, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(row_count), static_cast<unsigned>(rows.heads));
  merge_two<<<grid, 32, 0, stream>>>(rows);
  check_launch("merging attention");
}

}  // namespace kvasir::cuda
