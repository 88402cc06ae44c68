// merge_states.cu for few rows of many chunks: four warps share a row, and each merges every fourth chunk group,
// whose partials it loads together. Loading takes most of the time.
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/epilogue_row.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kWarps = 4;

// The chunk groups that a row sees, in the order of the context.
struct RowGroups {
  const AttentionTile& tile;
  Partials prefix, own;
  int stride;  // of a row

  // Chunk groups of the shared prefix or of sinks, and the first group after them.
  __device__ int at_front() const {
    const int shared = tile.prefix.chunks == 1 ? groups_of(tile.prefix.count) : tile.prefix.count;
    return max(shared, groups_of(tile.sink_chunks));
  }
  __device__ int behind_front() const { return max(at_front(), tile.first_chunk / kGroupChunks); }
  __device__ int count() const { return at_front() + max(0, groups_of(tile.end_chunk) - behind_front()); }

  // Merges a whole group: absent chunks add nothing, which is faster than looking for the end.
  __device__ MergedState sum(int index) const {
    const int group = index < at_front() ? index : behind_front() + index - at_front();
    MergedState next[kGroupChunks];
#pragma unroll
    for (int i = 0; i < kGroupChunks; ++i) next[i] = chunk(group * kGroupChunks + i);
    MergedState out;
#pragma unroll
    for (const MergedState& one : next) out.merge(one);
    return out;
  }

 private:
  __device__ MergedState sum_at(const Partials& parts, int index) const {
    const std::int64_t row = static_cast<std::int64_t>(index) * parts.step;
    return {*reinterpret_cast<const float4*>(parts.sums + row * stride), parts.states[row]};
  }

  // A chunk's partial; at a group's first chunk, the group's if it has one; or nothing.
  __device__ MergedState chunk(int at) const {
    const bool alone = tile.prefix.chunks == 1;
    const int index = alone ? at : at / kGroupChunks;
    if (index < tile.prefix.count && (alone || at % kGroupChunks == 0)) return sum_at(prefix, index);
    if (at < tile.sink_chunks) return sum_at(own, at);
    if (at < tile.first_chunk || at >= tile.end_chunk) return {};
    return sum_at(own, tile.sink_chunks + at - tile.first_chunk);
  }
};

// Partials of groups on their way to the first warp, double-buffered.
struct Exchange {
  float4 o[2][kWarps][32];
  SoftmaxState states[2][kWarps];
};

// All groups merged, in the first warp.
__device__ MergedState merged(const RowGroups& chunk_groups, Exchange& smem) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int count = chunk_groups.count();
  MergedState out;
#pragma unroll 1
  for (int first = 0, buffer = 0; first < count; first += kWarps, buffer ^= 1) {
    if (first + warp < count) {
      const MergedState one = chunk_groups.sum(first + warp);
      smem.o[buffer][warp][lane] = one.o;
      if (lane == 0) smem.states[buffer][warp] = one.state;
    }
    __syncthreads();
    for (int i = 0; warp == 0 && i < min(kWarps, count - first); ++i) {
      out.merge({smem.o[buffer][i][lane], smem.states[buffer][i]});
    }
  }
  __syncthreads();  // before the next dimensions
  return out;
}

__global__ void __launch_bounds__(kWarps * 32, 4) merge(const AttentionArgs args) {
  extern __shared__ float smem[];  // [v_dim] if hadamard_out
  __shared__ Exchange exchange;
  pdl_trigger();
  const AttentionTile tile = args.tiles[blockIdx.x];
  const RowOfTile row{args, tile, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
  const int batch_row = args.sequences[tile.sequence].first_row + tile.first_token + row.token();
  pdl_wait();
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0)
    *args.ticket_counter = 0;  // for the next launch
  if (row.row >= tile.tokens * args.heads_of_tile) return;
  const bool writes = threadIdx.x < 32;
  const RowEpilogue out(args, row.head(), batch_row, smem);
  for (int first = 0; first < args.view.layout.shape.v_dim; first += kDimsAtOnce) {
    const int dim = first + static_cast<int>(threadIdx.x) % 32 * 4;
    const RowGroups chunk_groups{tile, row.prefix(dim), row.own(dim), args.v_stride};
    const MergedState sums = merged(chunk_groups, exchange);
    if (writes) out.write(sums, dim);
  }
  if (writes) out.finish();
}

}  // namespace

void merge_states_wide(const AttentionArgs& args, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(args.tile_count), static_cast<unsigned>(args.most_rows),
                  static_cast<unsigned>(args.view.layout.shape.heads));
  const size_t smem = args.hadamard_out ? sizeof(float) * static_cast<size_t>(args.view.layout.shape.v_dim) : 0;
  launch_pdl("merge_states_wide", merge, {grid, dim3(kWarps * 32), smem}, stream, args);
}

}  // namespace kvasir::cuda
