// Tiles of keys and of values of f16 and bf16, as the copy engine of Hopper brings them into shared memory.
#pragma once

#include "backend/cuda/boxed_maps.cuh"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/item_walk.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/warpgroup.cuh"

namespace kvasir::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Attention of a batch's prompts goes ahead of that of other rows and splits, and that to prefixes comes behind both;
// none needs another: each begins as soon as a processor has done with those ahead. What all need was there before
// these let others start, and who waits for the last of them has waited for all.
struct Order {
  bool behind_others = false;
  bool ahead_of_others = false;

  static __device__ Order of_items(const AttentionArgs& args) { return {args.group_count > 0, args.piece_count > 0}; }
  static __device__ Order of_prefixes(const AttentionArgs& args) { return {args.piece_count > 0, false}; }

  // First of all.
  __device__ void begin() const {
    if (!ahead_of_others) let_followers_start();
  }
  __device__ void wait_for_rows() const {
    behind_others ? __threadfence() : wait_for_forerunners();
    if (ahead_of_others) let_followers_start();
  }
  // At last.
  __device__ void end() const {
    if (behind_others) wait_for_forerunners();
  }
};

struct TileOfItem {
  const KvView& view;
  const CUtensorMap& map;
  const WalkItem& item;
  int tile;
};

// By a warp, a lane for each block of the tile: what lies at `offset` of each, K or V of a head. Blocks that are not
// there leave what lay in their place.
template <int kDim>
__device__ void copy_blocks(const TileOfItem& of, std::int64_t offset, std::byte* to, std::uint64_t& barrier) {
  constexpr int kBlockBytes = kBlockOfTile * kDim * 2;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const BlockId id = of.item.block(of.tile * kBlocksOfTile + lane % kBlocksOfTile);
  const bool copies = lane < kBlocksOfTile && id != kNoBlock;
  const int count = __popc(__ballot_sync(0xffffffff, copies));
  const std::uint32_t full = hopper::shared_address(&barrier);
  if (lane == 0) hopper::arrive_and_expect(full, static_cast<std::uint32_t>(count * kBlockBytes));
  __syncwarp();
  if (!copies) return;
  const std::int64_t byte = of.view.block_at(id) - of.view.arena + offset;
  hopper::copy_box(hopper::shared_address(to + lane * kBlockBytes), {&of.map, 0, static_cast<int>(byte / kRowBytes)},
                   full, hopper::kEvictFirst);
}

// Values as HalvedPlaces has them, by a map of their own. `row`: in rows of 128 bytes.
template <int kDim>
__device__ hopper::BoxIn3d halved_at(const CUtensorMap& map, int row) {
  constexpr int kHalves = kDim * 2 / kRowBytes;
  return {&map, {0, row / kHalves, row % kHalves}};
}

// Blocks of an item that are not there, in bits; those of a tile.
__device__ inline unsigned missing_of(const WalkItem& of) { return __ballot_sync(0xffffffff, of.ids == kNoBlock); }
__device__ inline unsigned missing_in(unsigned of_item, int tile) {
  return of_item >> tile * kBlocksOfTile & ((1U << kBlocksOfTile) - 1U);
}

// Values that are not there: their weights are 0, but what lies in their place may be no number.
template <int kDim, class Places = BoxedPlaces<kDim>>
__device__ void clear_missing(const WalkItem& of, int tile, std::byte* v) {
  const Position left = of.item.query + of.item.after - of.first_key() - tile * kTileTokens;
  const unsigned missing = missing_in(missing_of(of), tile);
  if (left >= kTileTokens && missing == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kChunks = kDim / 8;  // of a token
  const int begin = missing != 0 ? 0 : static_cast<int>(left) * kChunks;
  for (int i = begin + lane; i < kTileTokens * kChunks; i += 32) {
    const int token = i / kChunks;
    if (token < left && (missing >> token / kBlockOfTile & 1U) == 0) continue;
    const int at = token / kBlockOfTile * kDim * 32 + Places::v_chunk(token % kBlockOfTile, i % kChunks);
    *reinterpret_cast<uint4*>(v + at) = {0, 0, 0, 0};
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before the copy engine writes there again
  __syncwarp();
}

#endif

}  // namespace kvasir::cuda
