// How warps go through their items over f16 and bf16 in blocks of 16 tokens on Hopper, each alone: the copy engine
// brings the blocks. A box is K, or V, of one block and head, and comes with the 128-byte swizzle; values come by halves
// (HalvedPlaces).
//
// Each warp has room for one tile of keys and one of values; the next ones are on their way into them as soon as they
// were multiplied. Queries are read as they came, straight into registers.
#pragma once

#include "backend/cuda/boxed_tiles.cuh"
#include "backend/cuda/finished_tile.cuh"

namespace kvasir::cuda {

template <int kDim>
struct alignas(kBoxAlignment) BoxedRoom {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kTileBytes];
  std::byte v[kTileBytes];
};

struct BoxedMaps {
  CUtensorMap k;
  CUtensorMap v;
};
inline BoxedMaps boxed_maps(const KvView& view, Number number) {
  return {map_of_boxes(view, number), map_of_halved(view, number)};
}

// Of one warp, in shared memory.
struct BoxedBarriers {
  std::uint64_t k;
  std::uint64_t v;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline void init_barriers(BoxedBarriers& barriers) {
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&barriers.k), 1);
    hopper::barrier_init(hopper::shared_address(&barriers.v), 1);
    hopper::fence_barrier_init();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
}

// What is copied next. The keys and values of one tile are on their way, or there, and those before it were used.
template <int kDim, class Source>
struct BoxedCopies {
  const AttentionArgs& args;
  const BoxedMaps& maps;
  BoxedRoom<kDim>& room;
  BoxedBarriers& barriers;
  ItemWalk<Source> walk;
  int tile = 0;
  typename Source::Item begun{};  // the last item of which a tile was copied
  int begun_head = 0;

  __device__ void next_keys() {
    if (!walk.at().valid()) return;
    if (tile == 0) {
      begun = walk.at();
      begun_head = walk.kv_head();
    }
    const std::int64_t offset = args.view.layout.k_offset(args.view.layer, begun_head);
    copy_blocks<kDim>({args.view, maps.k, walk.at(), tile}, offset, room.k, barriers.k);
  }
  __device__ void next_values() {
    if (!walk.at().valid()) return;
    const std::int64_t offset = args.view.layout.v_offset(args.view.layer, begun_head);
    copy_halved<kDim>({args.view, maps.v, walk.at(), tile}, offset, room.v, barriers.v);
    if (++tile == walk.at().tiles()) {
      tile = 0;
      walk.advance();
    }
  }
  // The first tile, before the kernels ahead have ended, where none of them writes what it is made of; and the next
  // ones as far as the second-level cache, so that the memory is not idle until they have.
  __device__ bool begin_early() {
    const WalkItem& first = walk.at();
    const bool old = args.begins_early && first.valid() && first.first_key() + kTileTokens <= first.item.query;
    if (old) {
      next_keys();
      next_values();
      const int tiles = min(walk.at().tiles(), 1 + kTilesFetched);
      for (int next = 1; next < tiles; ++next) fetch(next);
    }
    return old;
  }

 private:
  static constexpr int kTilesFetched = 1;

  __device__ void fetch(int next) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const WalkItem& first = walk.at();
    const BlockId id = first.block(next * kBlocksOfTile + lane % kBlocksOfTile);
    const bool old = first.first_key() + (next + 1) * kTileTokens <= first.item.query;
    if (!old || lane >= kBlocksOfTile || id == kNoBlock) return;
    const std::int64_t block = args.view.block_at(id) - args.view.arena;
    const KvLayout& layout = args.view.layout;
    const auto k = static_cast<int>((block + layout.k_offset(args.view.layer, begun_head)) / kRowBytes);
    hopper::fetch_box({&maps.k, 0, k});
    hopper::fetch_box_in_3d(halved_at<kDim>(maps.v, block + layout.v_offset(args.view.layer, begun_head)));
  }
};

// All items that the warp takes. `finished(item, rows, sums)`: sums of an item's split are complete.
template <class Half, int kDim, class Source, class Finished>
__device__ void attend_to_boxed_items(BoxedCopies<kDim, Source>& copies, Finished&& finished) {
  using Places = HalvedPlaces<kDim>;
  const AttentionArgs& args = copies.args;
  BoxedRoom<kDim>& room = copies.room;
  BoxedBarriers& barriers = copies.barriers;
  const bool began = copies.begin_early();
  Order::of_items(args).wait_for_rows();
  copies.walk.begin();
  if (!began) {
    copies.next_keys();
    copies.next_values();
  }
  unsigned parity = 0;
  for (typename Source::Item now = copies.begun; now.valid();) {
    const TileRows tile_rows{args, now.item, copies.begun_head};
    const RowsOfWarp rows = tile_rows.seen();
    Sums<kDim> sums;
    sums.clear();
    Queries<kDim> q;
    load_queries<Half>(tile_rows, q);
    for (int tile = 0; tile < now.tiles(); ++tile, parity ^= 1U) {
      Scores s;
      hopper::wait(hopper::shared_address(&barriers.k), parity);
      multiply_keys<Half, Places, kDim>(q, shared_address(room.k), s);
      __syncwarp();
      copies.next_keys();
      mask(args.view, rows, now.first_key() + tile * kTileTokens, s);
      soften(rows.factor, s, sums);
      hopper::wait(hopper::shared_address(&barriers.v), parity);
      clear_missing<kDim, Places>(now, tile, room.v);
      if (keep_infinities_apart<Half, Places>(args.view, rows, now.first_key() + tile * kTileTokens, room.v, sums)) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before the copy engine writes there again
      }
      multiply_values<Half, Places>(s, shared_address(room.v), sums);
      __syncwarp();
      copies.next_values();
    }
    finished(now, tile_rows, sums);
    now = copies.begun.index == now.index ? typename Source::Item{} : copies.begun;
  }
}

// Outputs of rows whose sums are complete.
template <int kDim>
__device__ void finish_boxed_tile(const TileRows& rows, const Sums<kDim>& sums) {
  finish_tile(rows, sums, [](const Sums<kDim>& all, int i, const auto& take) {
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) take(j * 8 + lane_group(), all.o[j / 2][j % 2 * 2 + i]);
  });
}

#endif

}  // namespace kvasir::cuda
