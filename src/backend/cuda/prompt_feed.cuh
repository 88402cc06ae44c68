// How keys and values of prompts come into shared memory: tiles of 64 tokens in a ring, K and V apart, each with a
// barrier that says that it is there and one that says that it was used.
//
// Two warps ask the copy engine for them, one for keys and one for values. Where not all rows of a group see all of a
// tile, another one looks through the values before they are multiplied: what no row may multiply, because it was
// never written, becomes zeros, and so do infinite numbers, which are noted for the rows that see them (a weight of 0
// times infinity is no number).
//
// Blocks that were widened (wide_blocks.h) have scales, which come with their keys.
#pragma once

#include "backend/cuda/attention_math.cuh"
#include "backend/cuda/prompt_walk.cuh"
#include "backend/cuda/warpgroup.cuh"
#include "backend/cuda/wide_maps.cuh"

namespace kvasir::cuda {

inline constexpr int kStages = 4;
// Of a tile; further ones stay where they are, and reach all rows.
inline constexpr int kMostInfinities = 64;
inline constexpr int kConsumers = 2;  // warpgroups
inline constexpr int kRowsOfConsumer = kRowsOfGroup / kConsumers;

struct Infinity {
  std::int16_t token, dim;
  float value;
};
struct Infinities {
  int count;
  Infinity list[kMostInfinities];
};

// As wgmma wants them: K as it lies in the cache, rows of 16 tokens; V in rows of 64 numbers, the first 64 of a
// block's tokens and then the second.
template <int kDim>
struct alignas(kBoxAlignment) PromptRoom {
  static constexpr int kBlockBytes = kBlockOfTile * kDim * 2;
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kStages][kTileBytes];
  std::byte v[kStages][kTileBytes];
  SpanTotals<kDim> totals[kConsumers];
  BlockScales scales[kStages][kBlocksOfTile];  // there, and used, with the keys
  std::uint16_t ones[128];
  Infinities infinities[kStages];
  std::uint64_t full_k[kStages], full_v[kStages], empty_k[kStages], empty_v[kStages];
  std::uint64_t landed[kStages];  // values that are looked through before they are full

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ std::uint64_t keys(unsigned stage) const {
    return hopper::matrix_descriptor(hopper::shared_address(k[stage]), {hopper::Swizzle::k32, kBlockBytes, 256});
  }
  __device__ std::uint64_t values(unsigned stage) const {
    return hopper::matrix_descriptor(hopper::shared_address(v[stage]),
                                     {hopper::Swizzle::k128, kBlockOfTile * 128, 1024});
  }
  static __device__ int v_chunk(int token, int chunk) {
    const int row = token % kBlockOfTile;
    return token / kBlockOfTile * kBlockBytes + chunk / 8 * kBlockOfTile * 128 + row * 128 +
           ((chunk % 8) ^ (row & 7)) * 16;
  }

  // `keepers`: threads that give each of the keys' places back.
  __device__ void init(int keepers) {
    for (int i = 0; i < kStages; ++i) {
      hopper::barrier_init(hopper::shared_address(&full_k[i]), 1);
      hopper::barrier_init(hopper::shared_address(&full_v[i]), 1);
      hopper::barrier_init(hopper::shared_address(&empty_k[i]), keepers);
      hopper::barrier_init(hopper::shared_address(&empty_v[i]), kConsumers * 4);
      hopper::barrier_init(hopper::shared_address(&landed[i]), 1);
    }
    hopper::fence_barrier_init();
  }
#endif
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

using Ring = hopper::RingAt<kStages>;

// Where the blocks of a group's tiles lie, kBlocksOfTile lanes for each of kTilesAhead tiles: a warp that asks for
// one tile after the other has no time to find them one by one. As rows of 128 bytes, from the arena's first byte.
class BlockRows {
 public:
  static constexpr int kTilesAhead = 32 / kBlocksOfTile;

  __device__ BlockRows(const AttentionArgs& args, const GroupWalk& walk)
      : view_(args.view), walk_(walk), offset_(view_.layout.k_offset(view_.layer, walk.kv_head)), next_(block(0)) {}

  // Tiles in their order, from 0 on.
  __device__ void go_to(int tile) {
    if (tile % kTilesAhead != 0) return;
    row_ = static_cast<int>((view_.block_at(next_) - view_.arena + offset_) / 128);
    there_ = __ballot_sync(0xffffffff, next_ != kNoBlock);
    next_ = block(tile + kTilesAhead);
  }
  // Of the tile: a bit for each block that is there, and the row where K of one begins.
  __device__ unsigned there(int tile) const {
    return there_ >> tile % kTilesAhead * kBlocksOfTile & ((1U << kBlocksOfTile) - 1);
  }
  __device__ int row(int tile, int block) const {
    return __shfl_sync(0xffffffff, row_, tile % kTilesAhead * kBlocksOfTile + block);
  }

 private:
  __device__ BlockId block(int first_tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int tile = first_tile + lane / kBlocksOfTile;
    return tile < walk_.tiles ? walk_.block(walk_.first_key(tile) + lane % kBlocksOfTile * kBlockOfTile) : kNoBlock;
  }

  const KvView& view_;
  const GroupWalk& walk_;
  std::int64_t offset_;  // of the KV head in a block
  BlockId next_;
  int row_ = 0;
  unsigned there_ = 0;
};

// One warp: the keys of all tiles of all groups, or the values, as places become free.
template <class Form, int kDim>
struct PromptFeeder {
  using Room = PromptRoom<kDim>;
  static constexpr int kRowsOfHead = 2 * Room::kBlockBytes / 128;  // of a block: K and V
  const AttentionArgs& args;
  const WideMaps& maps;
  Room& room;

  __device__ void feed_keys() const {
    feed(
        [&](const GroupWalk&, int, unsigned stage) {
          Place place{room.k[stage], &room.full_k[stage], &room.empty_k[stage]};
          if constexpr (Form::kScaled) place.scales = room.scales[stage];
          return place;
        },
        [&](int row) {
          return hopper::BoxIn3d{&maps.k, {0, 0, row}};
        });
  }
  // Those that must be looked through land first, and are full when they were.
  __device__ void feed_values() const {
    constexpr int kRowsOfToken = kDim / 64;
    feed(
        [&](const GroupWalk& walk, int tile, unsigned stage) {
          return Place{room.v[stage], walk.sees_all(tile) ? &room.full_v[stage] : &room.landed[stage],
                       &room.empty_v[stage]};
        },
        [&](int row) {
          const int at = row + Room::kBlockBytes / 128;  // V is behind K
          return hopper::BoxIn3d{&maps.v, {0, at / kRowsOfToken, at % kRowsOfToken}};
        });
  }

 private:
  struct Place {
    std::byte* tile;
    std::uint64_t* full;
    std::uint64_t* empty;
    BlockScales* scales = nullptr;  // of each block; null: they do not come along

    __device__ int block_bytes() const { return Room::kBlockBytes + (scales == nullptr ? 0 : sizeof(BlockScales)); }
  };

  template <class PlaceOf, class BoxAt>
  __device__ void feed(const PlaceOf& place_of, const BoxAt& box_at) const {
    Groups groups(args);
    GroupWalk walk;
    for (Ring ring; groups.next(walk);) {
      BlockRows blocks(args, walk);
      for (int tile = 0; tile < walk.tiles; ++tile, ++ring.count) {
        blocks.go_to(tile);
        int rows[kBlocksOfTile];
#pragma unroll
        for (int i = 0; i < kBlocksOfTile; ++i) rows[i] = blocks.row(tile, i);
        const unsigned there = blocks.there(tile);
        const Place place = place_of(walk, tile, ring.stage());
        hopper::wait(hopper::shared_address(place.empty), ring.parity_before());
        if (threadIdx.x % 32 != 0) continue;
        const std::uint32_t full = hopper::shared_address(place.full);
        hopper::arrive_and_expect(full, static_cast<std::uint32_t>(__popc(there) * place.block_bytes()));
#pragma unroll
        for (int i = 0; i < kBlocksOfTile; ++i) {
          if ((there >> i & 1U) == 0) continue;
          hopper::copy_box_in_3d(hopper::shared_address(place.tile + i * Room::kBlockBytes), box_at(rows[i]), full,
                                 hopper::kEvictLast);
          if (place.scales == nullptr) continue;
          hopper::copy_bytes(hopper::shared_address(place.scales + i), maps.scales + rows[i] / kRowsOfHead,
                             sizeof(BlockScales), full);
        }
      }
      __syncwarp();
    }
  }
};

// One warp: looks through the values of tiles that not all rows see.
template <class Half, int kDim>
struct PromptCleaner {
  using Room = PromptRoom<kDim>;
  const AttentionArgs& args;
  Room& room;

  __device__ void run() const {
    Groups groups(args);
    GroupWalk walk;
    unsigned used = 0;  // a bit for each stage
    for (Ring ring; groups.next(walk);) {
      for (int tile = 0; tile < walk.tiles; ++tile, ++ring.count) {
        if (walk.sees_all(tile)) continue;
        const unsigned stage = ring.stage();
        hopper::wait(hopper::shared_address(&room.landed[stage]), used >> stage & 1U);
        used ^= 1U << stage;
        clean(walk, tile, room.v[stage], room.infinities[stage]);
        hopper::fence_shared();
        __syncwarp();
        if (threadIdx.x % 32 == 0) hopper::arrive(hopper::shared_address(&room.full_v[stage]));
      }
    }
  }

 private:
  // Chunks of 8 numbers, a lane for each.
  __device__ void clean(const GroupWalk& walk, int tile, std::byte* v, Infinities& found) const {
    constexpr int kChunks = kDim / 8;
    static_assert(kTileTokens * kChunks % 32 == 0);
    const Position first = walk.first_key(tile);
    const Sight of_first(args.view, walk.group->query, first);
    const Sight of_last(args.view, walk.last_query(), first);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const BlockId block = walk.block(first + lane % kBlocksOfTile * kBlockOfTile);
    const unsigned blocks = __ballot_sync(0xffffffff, block != kNoBlock);  // that are there, again and again
    const Position end = walk.group->query + walk.group->after - first;
    std::uint64_t unseen = 0;  // by the first or the last row; what both see, those between see too
    std::uint64_t there = 0;
    for (int token = kTileTokens - 32 + lane; token >= 0; token -= 32) {
      const bool written = token < end && (blocks >> token / kBlockOfTile & 1U) != 0;
      unseen = unseen << 32 | __ballot_sync(0xffffffff, !of_first.of(token) || !of_last.of(token));
      there = there << 32 | __ballot_sync(0xffffffff, written);
    }
    int count = 0;
#pragma unroll 4
    for (int begin = 0; begin < kTileTokens * kChunks; begin += 32) {
      const int token = (begin + lane) / kChunks;
      auto* chunk = reinterpret_cast<uint4*>(v + Room::v_chunk(token, (begin + lane) % kChunks));
      uint4 held{0, 0, 0, 0};
      if ((unseen >> token & 1U) != 0) {
        if ((there >> token & 1U) != 0) held = *chunk;
        if ((there >> token & 1U) == 0) *chunk = held;
      }
      const bool has = infinite(held.x) || infinite(held.y) || infinite(held.z) || infinite(held.w);
      for (unsigned lanes = __ballot_sync(0xffffffff, has); lanes != 0; lanes &= lanes - 1) {
        const int owner = __ffs(static_cast<int>(lanes)) - 1;
        note(held, begin + owner, reinterpret_cast<std::uint16_t*>(chunk), found, count);
      }
    }
    if (lane == 0) found.count = count;
  }
  // Of chunk `at`, which lane at % 32 holds, by all lanes, each with its own chunk. The first one, which will say
  // that the tile is full, writes the list.
  static __device__ void note(const uint4& held, int at, std::uint16_t* own, Infinities& found, int& count) {
    constexpr int kChunks = kDim / 8;
    const std::uint32_t words[4] = {held.x, held.y, held.z, held.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const unsigned number = __shfl_sync(0xffffffff, words[j / 2], at % 32) >> j % 2 * 16 & 0xffffU;
      if ((number & Half::kExponent) != Half::kExponent || count == kMostInfinities) continue;
      if (threadIdx.x % 32 == 0) {
        found.list[count] = {static_cast<std::int16_t>(at / kChunks), static_cast<std::int16_t>(at % kChunks * 8 + j),
                             Half::decode(number)};
      }
      if (static_cast<int>(threadIdx.x) % 32 == at % 32) own[j] = 0;
      ++count;
    }
  }
  // Either of two.
  static __device__ bool infinite(std::uint32_t two) {
    return (two & Half::kExponent) == Half::kExponent || (two >> 16 & Half::kExponent) == Half::kExponent;
  }
};

#endif

}  // namespace kvasir::cuda
