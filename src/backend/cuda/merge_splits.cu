#include "backend/cuda/attention_kernels.h"
#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/product_rows.cuh"
#include "backend/cuda/row_walk.cuh"

namespace kvasir::cuda {
namespace {

constexpr float kLn2 = 0.6931471805599453F;

constexpr int kRowsAtOnce = 4;  // of a tile, by a thread block: a warp for each
constexpr int kDimsAtOnce = 128;
static_assert(kTurnedAtOnce == kDimsAtOnce);

// What the splits of a row have at dimensions [dim, dim + 4), and their state: in order. All that is read is on its
// way at once, or as much as registers hold: this kernel waits for memory and does little else.
struct MergedRow {
  float4 o = {0, 0, 0, 0};
  SoftmaxState sum;

  __device__ void add(const SoftmaxState& state, const float4& next) {
    const Fold by = fold(sum, state);
    sum = by.state;
    o = {fold(by, o.x, next.x), fold(by, o.y, next.y), fold(by, o.z, next.z), fold(by, o.w, next.w)};
  }
  // `part` and those `step` behind each other.
  __device__ void add_all(const AttentionArgs& args, std::int64_t part, std::int64_t step, int splits, int dim) {
    constexpr int kAtOnce = 16;
    const SoftmaxState* states = args.part_states + part;
    const float* sums = args.part_out + part * args.v_stride + dim;
    for (int split = 0; split < splits; split += kAtOnce) {
      SoftmaxState state[kAtOnce];
      float4 next[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (split + i < splits) {
          state[i] = *states;
          next[i] = *reinterpret_cast<const float4*>(sums);
        }
        states += step;
        sums += step * args.v_stride;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (split + i < splits) add(state[i], next[i]);
      }
    }
  }
};

__global__ void __launch_bounds__(kRowsAtOnce * 32, 4) merge(const AttentionArgs args) {
  extern __shared__ float turned[];  // [kRowsAtOnce][v_dim], where rows are
  let_followers_start();
  const AttentionTile tile = args.tiles[blockIdx.x];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(blockIdx.y) * kRowsAtOnce + static_cast<int>(threadIdx.x) / 32;
  const int kv_head = static_cast<int>(blockIdx.z);
  const int first_row = args.sequences[tile.sequence].first_row;
  wait_for_forerunners();
  if (blockIdx.x == 0 && blockIdx.y == 0 && kv_head == 0) {  // for the next launch
    for (int i = static_cast<int>(threadIdx.x); i < args.taken_count; i += kRowsAtOnce * 32) args.taken[i] = 0;
  }
  if (row >= tile.tokens * args.heads_of_tile) return;
  const int batch_row = first_row + tile.first_token + row / args.heads_of_tile;
  const int head = kv_head * args.heads_per_kv + tile.first_head + row % args.heads_of_tile;
  const int v_dim = args.view.layout.shape.v_dim;
  const std::int64_t state =
      static_cast<std::int64_t>(batch_row) * args.heads_per_kv * args.view.layout.shape.heads + head;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.z) * kTileRows;  // to the next split's sums
  const std::int64_t part =
      (static_cast<std::int64_t>(tile.first_item - args.first_item) * gridDim.z + kv_head) * kTileRows + row;
  float* out = args.out.data + batch_row * args.out.stride + head * v_dim;
  const ProductRow product_row{args.also, batch_row};
  if (head == 0) product_row.pad(args.out.cols, lane, 32);
  const bool turns_lanes = args.turns && v_dim == kTurnedAtOnce;
  const bool turns_row = args.turns && !turns_lanes;
  float* to = turns_row ? turned + static_cast<int>(threadIdx.x) / 32 * v_dim : out;
  for (int first = 0; first < v_dim; first += kDimsAtOnce) {
    const int dim = first + lane * 4;
    const int read = min(dim, args.v_stride - 4);
    MergedRow merged;
    if (tile.begun) {
      merged.sum = args.begun_states[state];
      merged.o = *reinterpret_cast<const float4*>(args.begun_out + state * args.v_stride + read);
    }
    merged.add_all(args, part, step, tile.splits(), read);
    const float inverse = merged.sum.d == 0.0F ? 0.0F : __frcp_rn(merged.sum.d);
    float four[4] = {merged.o.x, merged.o.y, merged.o.z, merged.o.w};
#pragma unroll
    for (float& one : four) one = __fmul_rn(one, inverse);
    if (turns_lanes) turn_lanes(four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (dim + i >= v_dim) break;
      to[dim + i] = four[i];
      if (!turns_row) product_row.put(head * v_dim + dim + i, four[i]);
    }
    if (first == 0 && lane == 0 && args.states != nullptr) {
      args.states[state] = {__fmul_rn(merged.sum.m, kLn2), merged.sum.d};
    }
  }
  if (!turns_row) return;
  __syncwarp();
  turn_row(to, v_dim);
  for (int i = lane; i < v_dim; i += 32) {
    out[i] = to[i];
    product_row.put(head * v_dim + i, to[i]);
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
