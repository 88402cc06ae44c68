#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/epilogue_row.cuh"
#include "backend/cuda/ops/warp_rows.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kRowsAtOnce = 4;  // of a tile by a CTA, a warp each

// A run of `count` partials, each over `chunks` chunks except perhaps the last. The first is at index `first`, the
// next `distance` further on, none after `last`.
struct Run {
  Partials parts;
  int first, distance, last;
  int count;
  int chunk;   // of the first partial
  int chunks;  // of a partial
};

// A row's partials in the order of the context: of the shared prefix, of sinks, of the rest.
struct RowPartials {
  const AttentionTile& tile;
  Partials prefix, own;
  int stride;      // of a row
  int own_chunks;  // of a partial; 1 if there are sinks

  __device__ Run run(int index) const {
    if (index == 0) return {prefix, 0, 1, tile.prefix.count - 1, tile.prefix.count, 0, tile.prefix.chunks};
    if (index == 1) return {own, 0, 1, tile.sink_chunks - 1, tile.sink_chunks, 0, 1};
    const int chunks = tile.end_chunk - tile.first_chunk;
    const int count = own_chunks == 1 ? chunks : groups_of(chunks);
    const int first = tile.sink_chunks + own_chunks - 1;  // a group's partial is at its last chunk
    return {own, first, own_chunks, tile.chunks() - 1, count, tile.first_chunk, own_chunks};
  }

  // Merges all partials of a lane's dimensions. Loads are issued together, as many as registers hold, since the
  // kernel waits for memory and does little else. Lane i, and i + 16, hold the state of the i-th.
  __device__ MergedState merged() const {
    constexpr int kAtOnce = 16;
    MergedState all, of_group;
    int current_group = 0;
#pragma unroll 1
    for (int index = 0; index < 3; ++index) {
      const Run at = run(index);
#pragma unroll 1
      for (int first = 0; first < at.count; first += kAtOnce) {
        const auto index_of = [&](int i) -> std::int64_t {
          return min(at.first + (first + i) * at.distance, at.last);
        };
        float4 next[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const float* from = at.parts.sums + index_of(i) * (at.parts.step * stride);
          if (first + i < at.count) next[i] = *reinterpret_cast<const float4*>(from);
        }
        const SoftmaxState state = at.parts.states[index_of(static_cast<int>(threadIdx.x) % kAtOnce) * at.parts.step];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (first + i >= at.count) break;
          const int group = (at.chunk + (first + i) * at.chunks) / kGroupChunks;
          if (group != current_group) {
            all.merge(of_group);
            of_group = {};
            current_group = group;
          }
          of_group.merge({next[i], {__shfl_sync(0xffffffff, state.m, i), __shfl_sync(0xffffffff, state.d, i)}});
        }
      }
    }
    all.merge(of_group);
    return all;
  }
};

__global__ void __launch_bounds__(kRowsAtOnce * 32, 4) merge(const AttentionArgs args) {
  extern __shared__ float smem[];  // [kRowsAtOnce][v_dim] if hadamard_out
  pdl_trigger();
  const AttentionTile tile = args.tiles[blockIdx.x];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const RowOfTile row{args, tile, static_cast<int>(blockIdx.y) * kRowsAtOnce + warp, static_cast<int>(blockIdx.z)};
  const int batch_row = args.sequences[tile.sequence].first_row + tile.first_token + row.token();
  pdl_wait();
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0)
    *args.ticket_counter = 0;  // for the next launch
  if (row.row >= tile.tokens * args.heads_of_tile) return;
  const int v_dim = args.view.layout.shape.v_dim;
  for (int first = 0; first < v_dim; first += kDimsAtOnce) {
    const int dim = first + lane * 4;
    const RowPartials parts{tile, row.prefix(dim), row.own(dim), args.v_stride,
                            args.merges_chunk_groups ? kGroupChunks : 1};
    const MergedState sums = parts.merged();
    RowEpilogue(args, row.head(), batch_row, smem + warp * v_dim).write(sums, dim);
  }
  RowEpilogue(args, row.head(), batch_row, smem + warp * v_dim).finish();
}

// merge_part_rows() of backend/merge_parts.h, a warp for each row and head.
__global__ void merge_two(const MergeRows rows) {
  const RowOfBatch owner = row_of_batch(rows.sequences, blockIdx.x);
  const int row = rows.sequences[owner.sequence].first_row + owner.row;
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

void merge_states(const AttentionArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(args.tile_count),
                  static_cast<unsigned>((args.most_rows + kRowsAtOnce - 1) / kRowsAtOnce),
                  static_cast<unsigned>(args.view.layout.shape.heads));
  const size_t shared =
      args.hadamard_out ? kRowsAtOnce * sizeof(float) * static_cast<size_t>(args.view.layout.shape.v_dim) : 0;
  launch_pdl("merge_states", merge, {grid, dim3(kRowsAtOnce * 32), shared}, stream, args);
}

void merge_rows(const MergeRows& rows, int row_count, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(row_count), static_cast<unsigned>(rows.heads));
  merge_two<<<grid, 32, 0, stream>>>(rows);
  check_launch("merge_rows");
}

}  // namespace kvasir::cuda
