// Tiles of f16 and bf16 keys and values by TMA, and the PDL order of the attention kernels of a batch.
#pragma once

#include "backend/cuda/arch/hopper.cuh"
#include "backend/cuda/arch/warpgroup.cuh"
#include "backend/cuda/attention/decode/tma_maps.cuh"
#include "backend/cuda/attention/decode/work_queue.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A batch launches prefill, then decode, then shared-prefix kernels. None reads what another writes, so each starts
// as SMs become free. All inputs are complete before the first of them triggers the next, and pdl_wait() of the last
// one waits for all.
struct PdlOrder {
  bool overlaps_predecessor = false;
  bool overlaps_successor = false;

  static __device__ PdlOrder of_items(const AttentionArgs& args) {
    return {args.prefill_tile_count > 0, args.prefix_item_count > 0};
  }
  static __device__ PdlOrder of_prefixes(const AttentionArgs& args) { return {args.prefix_item_count > 0, false}; }

  // Called first.
  __device__ void begin() const {
    if (!overlaps_successor) pdl_trigger();
  }
  __device__ void wait_for_rows() const {
    overlaps_predecessor ? __threadfence() : pdl_wait();
    if (overlaps_successor) pdl_trigger();
  }
  // Called last.
  __device__ void end() const {
    if (overlaps_predecessor) pdl_wait();
  }
};

struct TileOfItem {
  const KvView& view;
  const CUtensorMap& map;
  const WarpItem& item;
  int tile;
};

// Loads K or V, at `offset` of each block, for a tile, by a warp with a lane for each block. Absent blocks leave
// their shared memory as it is.
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
  hopper::tma_load(hopper::shared_address(to + lane * kBlockBytes), {&of.map, 0, static_cast<int>(byte / kRowBytes)},
                   full, hopper::kEvictFirst);
}

// The box of V for HalvedSmemLayout. `row`: in rows of 128 bytes.
template <int kDim>
__device__ hopper::TmaBox3d halves_at(const CUtensorMap& map, int row) {
  constexpr int kHalves = kDim * 2 / kRowBytes;
  return {&map, {0, row / kHalves, row % kHalves}};
}

// Bits of the absent blocks of an item, and of a tile.
__device__ inline unsigned missing_of(const WarpItem& of) { return __ballot_sync(0xffffffff, of.ids == kNoBlock); }
__device__ inline unsigned missing_in(unsigned of_item, int tile) {
  return of_item >> tile * kBlocksOfTile & ((1U << kBlocksOfTile) - 1U);
}

// Clears absent values: their weights are 0, but memory may hold NaN in their place.
template <int kDim, class Layout = TmaSmemLayout<kDim>>
__device__ void clear_missing(const WarpItem& of, int tile, std::byte* v) {
  const Position left = of.item.query + of.item.after - of.first_key() - tile * kTileTokens;
  const unsigned missing = missing_in(missing_of(of), tile);
  if (left >= kTileTokens && missing == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kVecs = kDim / 8;  // of a token
  const int begin = missing != 0 ? 0 : static_cast<int>(left) * kVecs;
  for (int i = begin + lane; i < kTileTokens * kVecs; i += 32) {
    const int token = i / kVecs;
    if (token < left && (missing >> token / kBlockOfTile & 1U) == 0) continue;
    const int at = token / kBlockOfTile * kDim * 32 + Layout::v_vec(token % kBlockOfTile, i % kVecs);
    *reinterpret_cast<uint4*>(v + at) = {0, 0, 0, 0};
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before TMA writes there again
  __syncwarp();
}

#endif

}  // namespace kvasir::cuda
