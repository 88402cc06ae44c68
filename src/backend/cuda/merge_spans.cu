// The sums of merge_splits.cu where there are few rows and each has many splits: four warps share a row, and each
// folds every fourth span, whose splits it reads all at once. Reading them is what takes the time.
#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/finished_row.cuh"
#include "backend/cuda/launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kWarps = 4;

// The spans that a row sees, in the order of the context.
struct RowSpans {
  const AttentionTile& tile;
  Parts begun, own;
  int stride;  // of a row

  // Spans that begin with what is shared, or with sinks; and the first behind these.
  __device__ int at_front() const {
    const int shared = tile.begun.splits == 1 ? spans_of(tile.begun.count) : tile.begun.count;
    return max(shared, spans_of(tile.sink_splits));
  }
  __device__ int behind_front() const { return max(at_front(), tile.first_split / kSpanSplits); }
  __device__ int count() const { return at_front() + max(0, spans_of(tile.end_split) - behind_front()); }

  // What is not there adds nothing: that is faster than to look for the end.
  __device__ MergedSums sum(int index) const {
    const int span = index < at_front() ? index : behind_front() + index - at_front();
    MergedSums next[kSpanSplits];
#pragma unroll
    for (int i = 0; i < kSpanSplits; ++i) next[i] = split(span * kSpanSplits + i);
    MergedSums out;
#pragma unroll
    for (const MergedSums& one : next) out.add(one);
    return out;
  }

 private:
  __device__ MergedSums sum_at(const Parts& parts, int place) const {
    const std::int64_t row = static_cast<std::int64_t>(place) * parts.step;
    return {*reinterpret_cast<const float4*>(parts.sums + row * stride), parts.states[row]};
  }

  // What there is of a split: nothing, its sum or, in the place of the first one, that of its span or of a part of
  // it.
  __device__ MergedSums split(int at) const {
    const bool alone = tile.begun.splits == 1;
    const int place = alone ? at : at / kSpanSplits;
    if (place < tile.begun.count && (alone || at % kSpanSplits == 0)) return sum_at(begun, place);
    if (at < tile.sink_splits) return sum_at(own, at);
    if (at < tile.first_split || at >= tile.end_split) return {};
    return sum_at(own, tile.sink_splits + at - tile.first_split);
  }
};

// Spans' sums on their way to the first warp, in turns of two.
struct Exchange {
  float4 o[2][kWarps][32];
  SoftmaxState states[2][kWarps];
};

// In the first warp: of all spans.
__device__ MergedSums merged(const RowSpans& spans, Exchange& room) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int count = spans.count();
  MergedSums out;
#pragma unroll 1
  for (int first = 0, turn = 0; first < count; first += kWarps, turn ^= 1) {
    if (first + warp < count) {
      const MergedSums one = spans.sum(first + warp);
      room.o[turn][warp][lane] = one.o;
      if (lane == 0) room.states[turn][warp] = one.state;
    }
    __syncthreads();
    for (int i = 0; warp == 0 && i < min(kWarps, count - first); ++i) {
      out.add({room.o[turn][i][lane], room.states[turn][i]});
    }
  }
  __syncthreads();  // before the next dimensions
  return out;
}

__global__ void __launch_bounds__(kWarps * 32, 4) merge(const AttentionArgs args) {
  extern __shared__ float room[];  // [v_dim], where rows are turned
  __shared__ Exchange exchange;
  let_followers_start();
  const AttentionTile tile = args.tiles[blockIdx.x];
  const RowOfTile row{args, tile, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
  const int batch_row = args.sequences[tile.sequence].first_row + tile.first_token + row.token();
  wait_for_forerunners();
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0)
    *args.taken = 0;  // for the next launch
  if (row.row >= tile.tokens * args.heads_of_tile) return;
  const bool writes = threadIdx.x < 32;
  const FinishedRow out(args, row.head(), batch_row, room);
  for (int first = 0; first < args.view.layout.shape.v_dim; first += kDimsAtOnce) {
    const int dim = first + static_cast<int>(threadIdx.x) % 32 * 4;
    const RowSpans spans{tile, row.begun(dim), row.own(dim), args.v_stride};
    const MergedSums sums = merged(spans, exchange);
    if (writes) out.write(sums, dim);
  }
  if (writes) out.finish();
}

}  // namespace

void merge_spans(const AttentionArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(args.tile_count), static_cast<unsigned>(args.most_rows),
                  static_cast<unsigned>(args.view.layout.shape.heads));
  const size_t room = args.turns ? sizeof(float) * static_cast<size_t>(args.view.layout.shape.v_dim) : 0;
  launch_early("merging spans", merge, {grid, dim3(kWarps * 32), room}, stream, args);
}

}  // namespace kvasir::cuda
