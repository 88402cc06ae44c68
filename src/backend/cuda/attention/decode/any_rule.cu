// Attention by any rule over any layout, in float32. A CTA has a tile of query heads and a chunk of keys: a thread a
// key for scores, then a thread a number of the output, so that what is decoded of a key serves the whole tile.
//
// A query's scores, their maximum, the sum of its weights and each number that they mix are computed by themselves,
// in the order of the keys or of the threads, which are keys: no bit depends on the rest of the tile.
#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/attention/kv_tile.cuh"
#include "backend/cuda/attention/score_rule.cuh"
#include "backend/cuda/ops/warp_rows.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {
namespace {

constexpr int kThreads = kChunkTokens;
constexpr int kWarps = kThreads / 32;
static_assert(kWarps == kTileRows, "merging, a warp has a row of the tile");

// A tile of the batch, for one KV head and some of its query heads.
struct Tile {
  const RuleAttention& args;
  SequenceView sequence;
  int first_token;
  int tokens;
  int kv_head;
  int first_head;   // of the KV head's
  std::int64_t at;  // among the tiles of the pass, all heads' counted

  // Reads block tables and such, which no kernel writes: it needs no pdl_wait(). Called by whole warps.
  __device__ static Tile of(const RuleAttention& args, unsigned index, unsigned head_tile) {
    const RowOfBatch owner =
        part_of_batch_by_warp(args.sequences, args.sequence_count, args.first_tile + static_cast<int>(index),
                              [&](const SequenceView& one) { return args.tiles_of(one); });
    const SequenceView sequence = args.sequences[owner.sequence];
    const int most = args.tokens_of_tile(sequence);
    const int first = owner.row * most;
    const auto head_tiles = static_cast<unsigned>(args.head_tiles());
    return {args,
            sequence,
            first,
            min(most, sequence.rows - first),
            static_cast<int>(head_tile / head_tiles),
            static_cast<int>(head_tile % head_tiles) * kTileRows,
            static_cast<std::int64_t>(index) * args.view.layout.shape.heads * args.head_tiles() + head_tile};
  }

  __device__ SeenChunks seen() const { return seen_chunks(args, sequence, first_token, tokens); }
  __device__ int token(int row) const { return first_token + row / args.heads_of_tile(); }
  __device__ int head(int row) const {
    return kv_head * args.heads_per_kv() + first_head + row % args.heads_of_tile();
  }
  __device__ bool has(int row) const {
    return row < tokens * args.heads_of_tile() && first_head + row % args.heads_of_tile() < args.heads_per_kv();
  }
  __device__ std::int64_t batch_row(int row) const { return sequence.first_row + token(row); }
  // Of a chunk's partials, of the tile's first row.
  __device__ std::int64_t partial(int slot) const { return (at * args.chunk_slots + slot) * kTileRows; }
  __device__ bool sees(int row, Position key) const {
    if (!has(row)) return false;
    if (args.rule.mask == ScoreRule::Mask::kAll) return key < sequence.keys;
    return args.view.reads(sequence.position_of(token(row)), key);
  }
  // Where a key lies, for a tile that sees it.
  __device__ Position slot_of(Position key) const {
    if (sequence.ancestors == nullptr || key < sequence.start) return key;
    return sequence.path_of(first_token).slot_of(key);
  }
};

// A chunk's keys in shared memory, by what values need of them.
struct ChunkSmem {
  float weights[kThreads][kTileRows];  // times the scale of the value's row
  const std::byte* values[kThreads];   // the block's numbers of the head; null: nobody sees the key
  int token_in_block[kThreads];
  float of_warps[kWarps][kTileRows];
};

// Joins a number of each thread, for each row of the tile, in the order of the threads.
template <class JoinWarp, class Join>
__device__ void join_rows(float (&own)[kTileRows], ChunkSmem& smem, const JoinWarp& join_warp, const Join& join) {
  __syncthreads();  // of_warps may still be read
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
    const float of_warp = join_warp(own[r]);
    if (threadIdx.x % 32 == 0) smem.of_warps[threadIdx.x / 32][r] = of_warp;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
    float all = smem.of_warps[0][r];
    for (int warp = 1; warp < kWarps; ++warp) all = join(all, smem.of_warps[warp][r]);
    own[r] = all;
  }
}

// q[d][row] of the tile, zeros for rows that it does not have.
__device__ void load_queries(const Tile& tile, float* q) {
  const int k_dim = tile.args.view.layout.shape.k_dim;
  for (int i = static_cast<int>(threadIdx.x); i < k_dim * kTileRows; i += kThreads) {
    const int row = i / k_dim;
    const int d = i % k_dim;
    q[d * kTileRows + row] =
        tile.has(row) ? tile.args.q[tile.batch_row(row) * tile.args.q_stride + tile.head(row) * k_dim + d] : 0.0F;
  }
}

// The products of the tile's queries with a key, by its thread.
__device__ void multiply_key(const Tile& tile, const float* q, BlockId block, int token_in_block,
                             float (&products)[kTileRows]) {
  const KvView& view = tile.args.view;
  const std::byte* keys = view.k_head(block, tile.kv_head);
  visit_codec(view.layout.k_format, [&](auto codec) {
    using Codec = decltype(codec);
    for (int d = 0; d < view.layout.shape.k_dim; ++d) {
      const float number = number_in<Codec, Side::kKeys>(keys, view, token_in_block, d);
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) products[r] = __fmaf_rn(q[d * kTileRows + r], number, products[r]);
    }
    if constexpr (kHasScale<Codec>) {
      const float scale = scale_at<Side::kKeys>(view, block, tile.kv_head, token_in_block);
#pragma unroll
      for (int r = 0; r < kTileRows; ++r) products[r] = __fmul_rn(products[r], scale);
    }
  });
}

// The scale of what is mixed of a key's row.
__device__ float value_scale(const KvView& view, BlockId block, int head, int token_in_block) {
  float scale = 1.0F;
  visit_codec(view.layout.v_format, [&](auto codec) {
    if constexpr (kHasScale<decltype(codec)>) {
      scale = view.layout.shape.has_v() ? scale_at<Side::kValues>(view, block, head, token_in_block)
                                        : scale_at<Side::kKeys>(view, block, head, token_in_block);
    }
  });
  return scale;
}

// The scores of this thread's key, -inf for rows that do not see it, and its place in shared memory. Returns whether
// any row sees it.
__device__ bool score_key(const Tile& tile, Position key, const float* q, ChunkSmem& smem, float (&scores)[kTileRows],
                          float& scale) {
  const RuleAttention& args = tile.args;
  unsigned sees = 0;
  for (int r = 0; r < kTileRows; ++r) sees |= static_cast<unsigned>(tile.sees(r, key)) << r;
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) scores[r] = -INFINITY;
  smem.values[threadIdx.x] = nullptr;
  if (sees == 0) return false;
  const KvLayout& layout = args.view.layout;
  const Position slot = tile.slot_of(key);
  const BlockId block = tile.sequence.block_of(slot, layout.block_tokens);
  const int token_in_block = static_cast<int>(slot % layout.block_tokens);
  smem.values[threadIdx.x] =
      layout.shape.has_v() ? args.view.v_head(block, tile.kv_head) : args.view.k_head(block, tile.kv_head);
  smem.token_in_block[threadIdx.x] = token_in_block;
  scale = value_scale(args.view, block, tile.kv_head, token_in_block);
  float products[kTileRows] = {};
  multiply_key(tile, q, block, token_in_block, products);
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
    if ((sees >> r & 1U) == 0) continue;
    const Position distance = key - tile.sequence.position_of(tile.token(r));
    scores[r] = score_of(args.rule, tile.head(r), products[r], distance);
  }
  return true;
}

// Mixes the chunk's values: a thread has kDims numbers, kThreads / kParts apart, of kTileRows / kParts rows.
template <int kParts, int kDims>
__device__ void mix_values(const Tile& tile, int slot, const ChunkSmem& smem) {
  constexpr int kLanes = kThreads / kParts;
  constexpr int kRows = kTileRows / kParts;
  const RuleAttention& args = tile.args;
  const int first_row = static_cast<int>(threadIdx.x) / kLanes * kRows;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  float o[kDims][kRows] = {};
  const auto mix = [&](const auto& number) {
    for (int key = 0; key < kChunkTokens; ++key) {
      const std::byte* values = smem.values[key];
      if (values == nullptr) continue;
#pragma unroll
      for (int j = 0; j < kDims; ++j) {
        const int d = lane + j * kLanes;
        if (d >= args.mixed_dim) break;
        const float value = number(values, smem.token_in_block[key], d);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const float weight = smem.weights[key][first_row + r];
          if (weight != 0.0F) o[j][r] = __fmaf_rn(weight, value, o[j][r]);  // 0 times infinity is no number
        }
      }
    }
  };
  visit_codec(args.view.layout.v_format, [&](auto codec) {
    using Codec = decltype(codec);
    if (args.view.layout.shape.has_v()) {
      mix([&](const std::byte* values, int token, int d) {
        return number_in<Codec, Side::kValues>(values, args.view, token, d);
      });
    } else {
      mix([&](const std::byte* keys, int token, int d) {
        return number_in<Codec, Side::kKeys>(keys, args.view, token, args.mixed_from + d);
      });
    }
  });
#pragma unroll
  for (int j = 0; j < kDims; ++j) {
    const int d = lane + j * kLanes;
    if (d >= args.mixed_dim) break;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (tile.has(first_row + r))
        args.partial_out[(tile.partial(slot) + first_row + r) * args.mixed_dim + d] = o[j][r];
    }
  }
}

// A CTA for each tile, chunk that it sees, and KV head and head tile. No chunk that a tile sees is left without
// states.
template <int kParts, int kDims>
__global__ void __launch_bounds__(kThreads) attend_chunk(const __grid_constant__ RuleAttention args) {
  extern __shared__ float q[];  // [k_dim][kTileRows]
  __shared__ ChunkSmem smem;
  pdl_trigger();
  const Tile tile = Tile::of(args, blockIdx.x, blockIdx.z);
  const auto slot = static_cast<int>(blockIdx.y);
  const SeenChunks seen = tile.seen();
  pdl_wait();
  if (slot >= seen.count()) return;
  load_queries(tile, q);
  __syncthreads();
  const Position key = static_cast<Position>(seen.at(slot)) * kChunkTokens + threadIdx.x;
  float own[kTileRows];
  float scale = 1.0F;
  const bool seen_by_any = score_key(tile, key, q, smem, own, scale);
  SoftmaxState* states = args.partial_states + tile.partial(slot);
  if (__syncthreads_or(static_cast<int>(seen_by_any)) == 0) {
    if (threadIdx.x < kTileRows) states[threadIdx.x] = {};
    return;
  }
  float top[kTileRows];
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) top[r] = own[r];
  join_rows(
      top, smem, [](float value) { return warp_max(value); }, [](float a, float b) { return fmaxf(a, b); });
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
    own[r] = own[r] == -INFINITY ? 0.0F : expf(__fsub_rn(own[r], top[r]));
    smem.weights[threadIdx.x][r] = __fmul_rn(own[r], scale);
  }
  join_rows(
      own, smem, [](float value) { return warp_sum(value); }, [](float a, float b) { return __fadd_rn(a, b); });
  if (threadIdx.x == 0) {
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) states[r] = {top[r], own[r]};
  }
  mix_values<kParts, kDims>(tile, slot, smem);
}

// The output of a row of the tile, by a warp: normalized, turned back if values are rotated, and the part of it that
// is wanted. `row_smem` holds mixed_dim numbers.
template <int kMost>
__device__ void finish_row(const Tile& tile, int row, const SoftmaxState& state, const float (&o)[kMost],
                           float* row_smem) {
  const RuleAttention& args = tile.args;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int j = 0; j < kMost; ++j) {
    const int d = lane + j * 32;
    if (d < args.mixed_dim) row_smem[d] = state.empty() ? 0.0F : __fdiv_rn(o[j], state.d);
  }
  __syncwarp();
  if (args.rotated) hadamard_row(row_smem, args.mixed_dim);
  const int v_dim = args.view.layout.shape.v_dim;
  float* to = args.out.data + tile.batch_row(row) * args.out.stride + tile.head(row) * v_dim;
  for (int d = lane; d < v_dim; d += 32) to[d] = row_smem[args.out_from + d];
  if (lane == 0 && args.states != nullptr) args.states[tile.batch_row(row) * args.heads + tile.head(row)] = state;
}

// A CTA for each tile, KV head and head tile; a warp for each row, whose lanes have kMost numbers each.
template <int kMost>
__global__ void __launch_bounds__(kThreads) merge_chunks(const __grid_constant__ RuleAttention args) {
  extern __shared__ float rows[];  // [kTileRows][mixed_dim]
  pdl_trigger();
  const Tile tile = Tile::of(args, blockIdx.x, blockIdx.y);
  const int chunks = tile.seen().count();
  pdl_wait();
  const int row = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (!tile.has(row)) return;
  SoftmaxState all;
  float o[kMost] = {};
  for (int slot = 0; slot < chunks; ++slot) {
    const std::int64_t at = tile.partial(slot) + row;
    const SoftmaxState next = args.partial_states[at];
    if (next.empty()) continue;
    const SoftmaxMerge by = kvasir::merge(all, next);
    all = by.state;
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
      const int d = lane + j * 32;
      if (d >= args.mixed_dim) break;
      o[j] = __fmaf_rn(args.partial_out[at * args.mixed_dim + d], by.second_scale, __fmul_rn(o[j], by.first_scale));
    }
  }
  if (args.rule.sink_logits != nullptr) {
    const SoftmaxMerge by = kvasir::merge(all, {args.rule.sink_logits[tile.head(row)], 1.0F});
    all = by.state;
#pragma unroll
    for (float& number : o) number = __fmul_rn(number, by.first_scale);
  }
  finish_row(tile, row, all, o, rows + row * args.mixed_dim);
}

auto chunk_kernel_for(int mixed_dim) {
  if (mixed_dim <= 32) return attend_chunk<8, 1>;
  if (mixed_dim <= 64) return attend_chunk<4, 1>;
  if (mixed_dim <= 128) return attend_chunk<2, 1>;
  if (mixed_dim <= 256) return attend_chunk<1, 1>;
  return attend_chunk<1, kMostHeadDim / kThreads>;
}

}  // namespace

void attend_by_rule(const RuleAttention& args, int tiles, cudaStream_t stream) {
  const auto count = static_cast<unsigned>(tiles);
  const auto heads = static_cast<unsigned>(args.view.layout.shape.heads * args.head_tiles());
  const auto floats = [](int dim) { return sizeof(float) * kTileRows * static_cast<size_t>(dim); };
  if (args.chunk_slots > 0) {
    launch_pdl("attention by rule", chunk_kernel_for(args.mixed_dim),
               {dim3(count, static_cast<unsigned>(args.chunk_slots), heads), dim3(kThreads),
                floats(args.view.layout.shape.k_dim)},
               stream, args);
  }
  launch_pdl("merging chunks", args.mixed_dim <= 256 ? merge_chunks<8> : merge_chunks<kMostHeadDim / 32>,
             {dim3(count, heads), dim3(kThreads), floats(args.mixed_dim)}, stream, args);
}

}  // namespace kvasir::cuda
