// Producer warps of wgmma.cu: tiles of 64 keys through a ring in shared memory, K and V apart, each stage with a full
// and an empty barrier.
//
// One warp loads keys and one values, by TMA. If not all rows of a q tile see all of a KV tile, a third warp cleans
// its values first: unwritten ones become zeros, and so do non-finite ones, which are listed for the rows that see
// them (0 times infinity is NaN). Scales of dequantized blocks come with the keys.
#pragma once

#include "backend/cuda/arch/warpgroup.cuh"
#include "backend/cuda/attention/attention_math.cuh"
#include "backend/cuda/attention/prefill/tile_scheduler.cuh"
#include "backend/cuda/attention/prefill/wgmma_maps.cuh"

namespace kvasir::cuda {

inline constexpr int kStages = 4;
// In a tile; further ones stay in place and reach all rows.
inline constexpr int kMostInfinities = 64;
inline constexpr int kConsumers = 2;  // warpgroups
inline constexpr int kRowsOfConsumer = kPrefillRows / kConsumers;

struct Infinity {
  std::int16_t token, dim;
  float value;
};
struct Infinities {
  int count;
  Infinity list[kMostInfinities];
};

// As wgmma wants them: K as in the cache, rows of 16 tokens; V in rows of 64 numbers, the first half of a block's
// tokens, then the second.
template <int kDim>
struct alignas(kBoxAlignment) PrefillSmem {
  static constexpr int kBlockBytes = kBlockOfTile * kDim * 2;
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kStages][kTileBytes];
  std::byte v[kStages][kTileBytes];
  GroupTotals<kDim> totals[kConsumers];
  BlockScales scales[kStages][kBlocksOfTile];  // under the barriers of the keys
  std::uint16_t ones[128];
  Infinities infinities[kStages];
  std::uint64_t full_k[kStages], full_v[kStages], empty_k[kStages], empty_v[kStages];
  std::uint64_t landed[kStages];  // barriers: values that are cleaned before they are full

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __device__ std::uint64_t keys(unsigned stage) const {
    return hopper::matrix_descriptor(hopper::shared_address(k[stage]), {hopper::Swizzle::k32, kBlockBytes, 256});
  }
  __device__ std::uint64_t values(unsigned stage) const {
    return hopper::matrix_descriptor(hopper::shared_address(v[stage]),
                                     {hopper::Swizzle::k128, kBlockOfTile * 128, 1024});
  }
  static __device__ int v_vec(int token, int vec) {
    const int row = token % kBlockOfTile;
    return token / kBlockOfTile * kBlockBytes + vec / 8 * kBlockOfTile * 128 + row * 128 +
           ((vec % 8) ^ (row & 7)) * 16;
  }

  // `keepers`: threads that arrive at a keys' stage to free it.
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

using Ring = hopper::RingSlot<kStages>;

// Where the blocks of a q tile's KV tiles lie, as rows of 128 bytes of the arena: kBlocksOfTile lanes for each of
// kTilesAhead tiles, since looking them up one by one is too slow for a producer.
class BlockRows {
 public:
  static constexpr int kTilesAhead = 32 / kBlocksOfTile;

  __device__ BlockRows(const AttentionArgs& args, const WorkTile& work)
      : view_(args.view), work_(work), offset_(view_.layout.k_offset(view_.layer, work.kv_head)), next_(block(0)) {}

  // Called for tiles in order, from 0 on.
  __device__ void go_to(int tile) {
    if (tile % kTilesAhead != 0) return;
    row_ = static_cast<int>((view_.block_at(next_) - view_.arena + offset_) / 128);
    there_ = __ballot_sync(0xffffffff, next_ != kNoBlock);
    next_ = block(tile + kTilesAhead);
  }
  // A bit for each block of the tile that exists, and the row of a block's K.
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
    return tile < work_.tiles ? work_.block(work_.first_key(tile) + lane % kBlocksOfTile * kBlockOfTile) : kNoBlock;
  }

  const KvView& view_;
  const WorkTile& work_;
  std::int64_t offset_;  // of the KV head in a block
  BlockId next_;
  int row_ = 0;
  unsigned there_ = 0;
};

// One warp loads the keys of all tiles, or the values, as stages become free.
template <class Form, int kDim>
struct PrefillProducer {
  using Smem = PrefillSmem<kDim>;
  static constexpr int kRowsOfHead = 2 * Smem::kBlockBytes / 128;  // K and V of a block
  const AttentionArgs& args;
  const WgmmaMaps& maps;
  Smem& smem;

  __device__ void produce_keys() const {
    produce(
        [&](const WorkTile&, int, unsigned stage) {
          Slot slot{smem.k[stage], &smem.full_k[stage], &smem.empty_k[stage]};
          if constexpr (Form::kScaled) slot.scales = smem.scales[stage];
          return slot;
        },
        [&](int row) {
          return hopper::TmaBox3d{&maps.k, {0, 0, row}};
        });
  }
  // Values that must be cleaned land first, and are full when they are clean.
  __device__ void produce_values() const {
    constexpr int kRowsOfToken = kDim / 64;
    produce(
        [&](const WorkTile& work, int tile, unsigned stage) {
          return Slot{smem.v[stage], work.sees_all(tile) ? &smem.full_v[stage] : &smem.landed[stage],
                      &smem.empty_v[stage]};
        },
        [&](int row) {
          const int at = row + Smem::kBlockBytes / 128;  // V is after K
          return hopper::TmaBox3d{&maps.v, {0, at / kRowsOfToken, at % kRowsOfToken}};
        });
  }

 private:
  struct Slot {
    std::byte* tile;
    std::uint64_t* full;
    std::uint64_t* empty;
    BlockScales* scales = nullptr;  // by block; null: they are not copied

    __device__ int block_bytes() const { return Smem::kBlockBytes + (scales == nullptr ? 0 : sizeof(BlockScales)); }
  };

  template <class SlotOf, class TmaBox>
  __device__ void produce(const SlotOf& slot_of, const TmaBox& box_at) const {
    TileScheduler scheduler(args);
    WorkTile work;
    for (Ring ring; scheduler.next(work);) {
      BlockRows blocks(args, work);
      for (int tile = 0; tile < work.tiles; ++tile, ++ring.count) {
        blocks.go_to(tile);
        int rows[kBlocksOfTile];
#pragma unroll
        for (int i = 0; i < kBlocksOfTile; ++i) rows[i] = blocks.row(tile, i);
        const unsigned there = blocks.there(tile);
        const Slot slot = slot_of(work, tile, ring.stage());
        hopper::wait(hopper::shared_address(slot.empty), ring.parity_before());
        if (threadIdx.x % 32 != 0) continue;
        const std::uint32_t full = hopper::shared_address(slot.full);
        hopper::arrive_and_expect(full, static_cast<std::uint32_t>(__popc(there) * slot.block_bytes()));
#pragma unroll
        for (int i = 0; i < kBlocksOfTile; ++i) {
          if ((there >> i & 1U) == 0) continue;
          hopper::tma_load_3d(hopper::shared_address(slot.tile + i * Smem::kBlockBytes), box_at(rows[i]), full,
                              hopper::kEvictLast);
          if (slot.scales == nullptr) continue;
          hopper::bulk_load(hopper::shared_address(slot.scales + i), maps.scales + rows[i] / kRowsOfHead,
                            sizeof(BlockScales), full);
        }
      }
      __syncwarp();
    }
  }
};

// One warp cleans the values of tiles that not all rows see.
template <class Half, int kDim>
struct ValueCleaner {
  using Smem = PrefillSmem<kDim>;
  const AttentionArgs& args;
  Smem& smem;

  __device__ void run() const {
    TileScheduler scheduler(args);
    WorkTile work;
    unsigned used = 0;  // a bit for each stage
    for (Ring ring; scheduler.next(work);) {
      for (int tile = 0; tile < work.tiles; ++tile, ++ring.count) {
        if (work.sees_all(tile)) continue;
        const unsigned stage = ring.stage();
        hopper::wait(hopper::shared_address(&smem.landed[stage]), used >> stage & 1U);
        used ^= 1U << stage;
        clean(work, tile, smem.v[stage], smem.infinities[stage]);
        hopper::fence_async_proxy();
        __syncwarp();
        if (threadIdx.x % 32 == 0) hopper::arrive(hopper::shared_address(&smem.full_v[stage]));
      }
    }
  }

 private:
  // Vectors of 8 numbers, one a lane.
  __device__ void clean(const WorkTile& work, int tile, std::byte* v, Infinities& found) const {
    constexpr int kVecs = kDim / 8;
    static_assert(kTileTokens * kVecs % 32 == 0);
    const Position first = work.first_key(tile);
    const KeyMask of_first(args.view, work.q_tile->query, first);
    const KeyMask of_last(args.view, work.last_query(), first);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const BlockId block = work.block(first + lane % kBlocksOfTile * kBlockOfTile);
    const unsigned blocks = __ballot_sync(0xffffffff, block != kNoBlock);  // a bit for each existing block, repeated
    const Position end = work.q_tile->query + work.q_tile->after - first;
    std::uint64_t unseen = 0;  // by the first or the last row; rows between them see what both see
    std::uint64_t there = 0;
    for (int token = kTileTokens - 32 + lane; token >= 0; token -= 32) {
      const bool written = token < end && (blocks >> token / kBlockOfTile & 1U) != 0;
      unseen = unseen << 32 | __ballot_sync(0xffffffff, !of_first.of(token) || !of_last.of(token));
      there = there << 32 | __ballot_sync(0xffffffff, written);
    }
    int count = 0;
#pragma unroll 4
    for (int begin = 0; begin < kTileTokens * kVecs; begin += 32) {
      const int token = (begin + lane) / kVecs;
      auto* vec = reinterpret_cast<uint4*>(v + Smem::v_vec(token, (begin + lane) % kVecs));
      uint4 held{0, 0, 0, 0};
      if ((unseen >> token & 1U) != 0) {
        if ((there >> token & 1U) != 0) held = *vec;
        if ((there >> token & 1U) == 0) *vec = held;
      }
      const bool has = infinite(held.x) || infinite(held.y) || infinite(held.z) || infinite(held.w);
      for (unsigned lanes = __ballot_sync(0xffffffff, has); lanes != 0; lanes &= lanes - 1) {
        const int owner = __ffs(static_cast<int>(lanes)) - 1;
        note(held, begin + owner, reinterpret_cast<std::uint16_t*>(vec), found, count);
      }
    }
    if (lane == 0) found.count = count;
  }
  // Lists the non-finite numbers of vector `at`, which lane at % 32 holds, and clears them. Lane 0 writes the list,
  // since it signals that the tile is full.
  static __device__ void note(const uint4& held, int at, std::uint16_t* own, Infinities& found, int& count) {
    constexpr int kVecs = kDim / 8;
    const std::uint32_t words[4] = {held.x, held.y, held.z, held.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const unsigned number = __shfl_sync(0xffffffff, words[j / 2], at % 32) >> j % 2 * 16 & 0xffffU;
      if ((number & Half::kExponent) != Half::kExponent || count == kMostInfinities) continue;
      if (threadIdx.x % 32 == 0) {
        found.list[count] = {static_cast<std::int16_t>(at / kVecs), static_cast<std::int16_t>(at % kVecs * 8 + j),
                             Half::decode(number)};
      }
      if (static_cast<int>(threadIdx.x) % 32 == at % 32) own[j] = 0;
      ++count;
    }
  }
  // Whether either of two numbers is non-finite.
  static __device__ bool infinite(std::uint32_t two) {
    return (two & Half::kExponent) == Half::kExponent || (two >> 16 & Half::kExponent) == Half::kExponent;
  }
};

#endif

}  // namespace kvasir::cuda
