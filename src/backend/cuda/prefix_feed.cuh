// How what attention to prefixes needs comes into shared memory: tiles of 64 tokens in a ring, K and V apart, each
// with a barrier that says that it is there and one that says that it was used; and the queries of a piece.
//
// Two warps ask the copy engine for keys and for values. Two more read the next piece's queries while this one is
// multiplied: between two pieces nobody waits for memory.
//
// Blocks that were widened (wide_blocks.h) have scales, which come with their keys.
#pragma once

#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/boxed_places.cuh"
#include "backend/cuda/warpgroup.cuh"
#include "backend/cuda/wide_maps.cuh"
#include "layout/row_numbers.h"

namespace kvasir::cuda::prefix {

inline constexpr int kMultipliers = 2;  // warpgroups
inline constexpr int kThreads = (kMultipliers + 1) * 128;
inline constexpr int kLoaderWarps = 2;
inline constexpr int kLoaderBarrier = 1;  // that these warps wait at for each other
inline constexpr int kMultiplierBarrier = 2;
inline constexpr int kStages = 4;
inline constexpr int kTilesOfSplit = kSplitTokens / kTileTokens;

// What multipliers need of a piece.
struct PieceInfo {
  int splits;
  int splits_of_sum;  // see BegunSums
  std::int64_t step;
  std::int64_t sums[kRowsOfPrefix];  // where the first one of each row goes; -1: there is no such row
  float factors[kRowsOfPrefix];      // of scores, where keys have scales
};

// K as it lies in the cache, rows of 16 tokens; V in rows of 64 numbers, the first 64 of a block's tokens and then
// the second, then as many ones: weights are summed as if they had a value of 1 beside the others.
template <int kDim>
struct alignas(kBoxAlignment) Room {
  static constexpr int kBlockBytes = kBlockOfTile * kDim * 2;
  static constexpr int kOnesBytes = kBlockOfTile * kRowBytes;
  static constexpr int kValueBytes = kBlockBytes + kOnesBytes;  // of a block
  static constexpr int kFragments = kRowsOfPrefix / 16 * (kDim / 16) * 32;
  std::byte k[kStages][kBlocksOfTile * kBlockBytes];
  std::byte v[kStages][kBlocksOfTile * kValueBytes];
  uint4 queries[kFragments];  // of a piece: [16 rows][16 dimensions][lane], as a multiplier's threads hold them
  // Where they come from: float32, or 16-bit numbers that were prepared. Null: there is no such row.
  const void* query_rows[kRowsOfPrefix];
  PieceInfo pieces[2];                 // that one, and the one before it, whose last sums are not written yet
  float4 states[kMultipliers * 128];   // of a multiplier's threads
  float2 factors[kMultipliers * 128];  // likewise
  BlockScales scales[kStages][kBlocksOfTile];
  std::uint16_t ones[128];  // where they do not lie beside values
  std::uint64_t full_k[kStages], full_v[kStages], empty_k[kStages], empty_v[kStages];
  std::uint64_t full_queries, empty_queries;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

using Ring = hopper::RingAt<kStages>;

__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline void wait_at(std::uint64_t& barrier, unsigned parity) {
  hopper::wait(hopper::shared_address(&barrier), parity);
}
__device__ inline void arrive_at(std::uint64_t& barrier) { hopper::arrive(hopper::shared_address(&barrier)); }

// The pieces of a thread block: all its warps go through them in turn. There is a first one.
struct Pieces {
  const PrefixArgs& prefixes;
  int number = 0;  // of the thread block's

  __device__ bool there() const { return index() < prefixes.piece_count; }
  __device__ const PrefixPiece& at() const { return prefixes.pieces[index()]; }

 private:
  __device__ int index() const { return static_cast<int>(blockIdx.x) + number * static_cast<int>(gridDim.x); }
};

// One warp: the keys of all tiles, or the values, as places become free.
template <class Form, int kDim>
struct Feeder {
  static constexpr int kTilesAhead = 32 / kBlocksOfTile;  // whose blocks a warp finds at once, a lane for each
  const AttentionArgs& args;
  const PrefixArgs& prefixes;
  const WideMaps& maps;
  Room<kDim>& room;

  __device__ void feed_keys() const {
    constexpr int kRowsOfHead = 2 * Room<kDim>::kBlockBytes / kRowBytes;  // of a block: K and V
    constexpr int kScales = Form::kScaled ? sizeof(BlockScales) : 0;
    feed<Room<kDim>::kBlockBytes + kScales>(
        room.full_k, room.empty_k, [&](unsigned stage, int block, int row, std::uint32_t full) {
          copy(room.k[stage] + block * Room<kDim>::kBlockBytes, {&maps.k, {0, 0, row}}, full);
          if constexpr (Form::kScaled) {
            hopper::copy_bytes(hopper::shared_address(&room.scales[stage][block]), maps.scales + row / kRowsOfHead,
                               sizeof(BlockScales), full);
          }
        });
  }
  __device__ void feed_values() const {
    constexpr int kRowsOfToken = kDim / 64;
    feed<Room<kDim>::kBlockBytes>(room.full_v, room.empty_v,
                                  [&](unsigned stage, int block, int row, std::uint32_t full) {
                                    const int at = row + Room<kDim>::kBlockBytes / kRowBytes;  // V is behind K
                                    copy(room.v[stage] + block * Room<kDim>::kValueBytes,
                                         {&maps.v, {0, at / kRowsOfToken, at % kRowsOfToken}}, full);
                                  });
  }

 private:
  static __device__ void copy(std::byte* to, const hopper::BoxIn3d& box, std::uint32_t barrier) {
    hopper::copy_box_in_3d(hopper::shared_address(to), box, barrier, hopper::kEvictFirst);
  }

  // `copy_block(stage, block, row, barrier)`: kBytes of a block of the tile, whose K begins at a row.
  template <int kBytes, class CopyBlock>
  __device__ void feed(std::uint64_t (&full)[kStages], std::uint64_t (&empty)[kStages],
                       const CopyBlock& copy_block) const {
    Ring ring;
    for (Pieces pieces{prefixes}; pieces.there(); ++pieces.number) {
      const PrefixPiece piece = pieces.at();
      const int tiles = piece.splits * kTilesOfSplit;
      const BlockId* blocks = prefixes.groups[piece.group].blocks + piece.first_split * (kSplitTokens / kBlockOfTile);
      const std::int64_t offset = args.view.layout.k_offset(args.view.layer, piece.kv_head);
      const auto block_at = [&](int tile) {
        const int at = tile * kBlocksOfTile + lane_of_warp();
        return at < tiles * kBlocksOfTile ? blocks[at] : blocks[0];
      };
      BlockId next = block_at(0);
      int rows = 0;  // of 128 bytes, from the arena's first on
      for (int tile = 0; tile < tiles; ++tile, ++ring.count) {
        if (tile % kTilesAhead == 0) {
          rows = static_cast<int>((args.view.block_at(next) - args.view.arena + offset) / kRowBytes);
          next = block_at(tile + kTilesAhead);
        }
        int row[kBlocksOfTile];
#pragma unroll
        for (int i = 0; i < kBlocksOfTile; ++i) {
          row[i] = __shfl_sync(0xffffffff, rows, tile % kTilesAhead * kBlocksOfTile + i);
        }
        const unsigned stage = ring.stage();
        wait_at(empty[stage], ring.parity_before());
        if (lane_of_warp() != 0) continue;
        const std::uint32_t barrier = hopper::shared_address(&full[stage]);
        hopper::arrive_and_expect(barrier, kBlocksOfTile * kBytes);
#pragma unroll
        for (int i = 0; i < kBlocksOfTile; ++i) copy_block(stage, i, row[i], barrier);
      }
      __syncwarp();
    }
  }
};

// Queries of a piece into shared memory, as 16-bit numbers, and where the sums of its rows go.
template <class Form, int kDim>
struct QueryLoader {
  const AttentionArgs& args;
  const PrefixArgs& prefixes;
  Room<kDim>& room;

  // The next pieces', by kLoaderWarps warps, each as soon as the multipliers have the one before.
  __device__ void run(int thread) const {
    constexpr int kThreadsHere = kLoaderWarps * 32;
    for (Pieces pieces{prefixes, 1}; pieces.there(); ++pieces.number) {
      wait_at(room.empty_queries, static_cast<unsigned>(pieces.number - 1) & 1U);
      find_rows(pieces, thread, kThreadsHere);
      hopper::sync_at(kLoaderBarrier, kThreadsHere);
      prepared() ? copy(thread, kThreadsHere) : load<2>(thread, kThreadsHere);
      arrive_at(room.full_queries);
    }
  }
  // Of the thread block's first piece, by the multipliers themselves.
  __device__ void load_first(int thread) const {
    constexpr int kThreadsHere = kMultipliers * 128;
    find_rows(Pieces{prefixes}, thread, kThreadsHere);
    hopper::sync_at(kMultiplierBarrier, kThreadsHere);
    prepared() ? copy(thread, kThreadsHere) : load<8>(thread, kThreadsHere);
    hopper::sync_at(kMultiplierBarrier, kThreadsHere);
  }

 private:
  __device__ bool prepared() const { return Form::kScaled && args.q != nullptr; }

  // As TileRows has it.
  __device__ float factor(bool there, std::int64_t state) const {
    if (!there || args.q_scales == nullptr) return args.scale;
    const float q_scale = args.q_scales[state];
    return q_scale != 0.0F ? __fmul_rn(args.scale, q_scale) : args.scale;
  }

  __device__ void find_rows(const Pieces& pieces, int thread, int threads) const {
    const PrefixPiece piece = pieces.at();
    const PrefixGroup group = prefixes.groups[piece.group];
    const std::int64_t heads = static_cast<std::int64_t>(args.heads_per_kv) * args.view.layout.shape.heads;
    PieceInfo& info = room.pieces[pieces.number % 2];
    for (int row = thread; row < kRowsOfPrefix; row += threads) {
      const int token = row / args.heads_per_kv;
      const int head = piece.kv_head * args.heads_per_kv + row - token * args.heads_per_kv;
      const bool there = token < group.tokens;
      const std::int64_t batch_row = there ? prefixes.rows[group.first + token] : 0;
      const std::int64_t state = batch_row * heads + head;
      room.query_rows[row] = nullptr;
      if (there) {
        room.query_rows[row] = prepared() ? static_cast<const void*>(args.q + state * args.k_stride)
                                          : args.queries.data + batch_row * args.queries.stride + head * kDim;
      }
      if constexpr (Form::kScaled) info.factors[row] = factor(there, state);
      info.sums[row] =
          there ? group.sums.at + token * heads + head + piece.first_split / group.sums.splits * group.sums.step : -1;
    }
    if (thread == 0) {
      info.splits = piece.splits;
      info.splits_of_sum = group.sums.splits;
      info.step = group.sums.step;
    }
  }

  // Rows 16 of `at` and their dimensions 16 .., as a lane of a fragment has them.
  __device__ const void* row_of(int at, int j) const {
    return room.query_rows[at / 32 / (kDim / 16) * 16 + at % 32 / 4 + j % 2 * 8];
  }
  static __device__ int dim_of(int at, int j) { return at / 32 % (kDim / 16) * 16 + j / 2 * 8 + at % 4 * 2; }

  __device__ void copy(int thread, int threads) const {
    for (int at = thread; at < Room<kDim>::kFragments; at += threads) {
      const auto two = [&](int j) {
        const auto* row = static_cast<const std::uint16_t*>(row_of(at, j));
        return row == nullptr ? 0 : *reinterpret_cast<const std::uint32_t*>(row + dim_of(at, j));
      };
      room.queries[at] = {two(0), two(1), two(2), two(3)};
    }
  }

  // By `threads` threads, each kAtOnce fragments at a time. Rows that are not there are zeros.
  template <int kAtOnce>
  __device__ void load(int thread, int threads) const {
    for (int first = thread; first < Room<kDim>::kFragments; first += threads * kAtOnce) {
      float2 numbers[kAtOnce][4];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = min(first + i * threads, Room<kDim>::kFragments - 1);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const auto* row = static_cast<const float*>(row_of(at, j));
          numbers[i][j] = {0.0F, 0.0F};
          if (row != nullptr) numbers[i][j] = *reinterpret_cast<const float2*>(row + dim_of(at, j));
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + i * threads;
        const auto two = [&](int j) { return Form::Keys::pack(held(numbers[i][j].x), held(numbers[i][j].y)); };
        if (at < Room<kDim>::kFragments) room.queries[at] = {two(0), two(1), two(2), two(3)};
      }
    }
  }
};

// By all threads, before anything else.
template <class Form, int kDim>
__device__ void make_ready(Room<kDim>& room) {
  using Half = typename Form::Values;
  constexpr int kWords = Room<kDim>::kOnesBytes / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kStages * kBlocksOfTile * kWords; i += kThreads) {
    std::byte* block = room.v[0] + i / kWords * Room<kDim>::kValueBytes;  // stages lie behind each other
    reinterpret_cast<std::uint32_t*>(block + Room<kDim>::kBlockBytes)[i % kWords] = Half::kOnes;
  }
  if (threadIdx.x < 128) room.ones[threadIdx.x] = Half::kOnes & 0xffffU;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      hopper::barrier_init(hopper::shared_address(&room.full_k[i]), 1);
      hopper::barrier_init(hopper::shared_address(&room.full_v[i]), 1);
      hopper::barrier_init(hopper::shared_address(&room.empty_k[i]), kMultipliers * (Form::kScaled ? 128 : 4));
      hopper::barrier_init(hopper::shared_address(&room.empty_v[i]), kMultipliers * 4);
    }
    // Every thread for itself, as racecheck wants it: it is once in a piece.
    hopper::barrier_init(hopper::shared_address(&room.full_queries), kLoaderWarps * 32);
    hopper::barrier_init(hopper::shared_address(&room.empty_queries), kMultipliers * 128);
    hopper::fence_barrier_init();
  }
  hopper::fence_shared();
}

#endif

}  // namespace kvasir::cuda::prefix
