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
    hopper::barrier_init(hopper::shared_address(&barriers.k), kBlocksOfTile);
    hopper::barrier_init(hopper::shared_address(&barriers.v), kBlocksOfTile);
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
  int begun_row = kNowhere;  // of lane i: where keys of block i of that item lie, in rows of boxes

  __device__ void next_keys() {
    if (!walk.at().valid()) return;
    if (tile == 0) begin_item();
    copy_tile(room.k, barriers.k, [this](int row, std::uint32_t to, std::uint32_t full) {
      hopper::copy_box(to, {&maps.k, 0, row}, full, hopper::kEvictFirst);
    });
  }
  __device__ void next_values() {
    if (!walk.at().valid()) return;
    copy_tile(room.v, barriers.v, [this](int row, std::uint32_t to, std::uint32_t full) {
      hopper::copy_box_in_3d(to, values_behind(row), full, hopper::kEvictFirst);
    });
    if (++tile == walk.at().tiles()) {
      tile = 0;
      walk.advance();
    }
  }
  // The first tile, before the kernels ahead have ended, where none of them writes what it is made of; and values of
  // the next one as far as the second-level cache, so that the memory is not idle until they have. Anything more would
  // delay what warps that are still at work have asked for.
  __device__ bool begin_early() {
    if (!walk.at().valid()) return false;
    begin_item();
    const bool old = args.begins_early && begun.first_key() + kTileTokens <= begun.item.query;
    if (old) {
      next_keys();
      next_values();
      if (begun.tiles() > 1) fetch_values(1);
    }
    return old;
  }

 private:
  static constexpr int kNowhere = -1;
  static constexpr int kBlockBytes = kBlockOfTile * kDim * 2;

  __device__ void begin_item() {
    begun = walk.at();
    begun_head = walk.kv_head();
    const std::int64_t keys = args.view.layout.k_offset(args.view.layer, begun_head);
    begun_row = begun.ids == kNoBlock
                    ? kNowhere
                    : static_cast<int>((args.view.block_at(begun.ids) - args.view.arena + keys) / kRowBytes);
  }
  __device__ hopper::BoxIn3d values_behind(int row) const {
    return halved_at<kDim>(maps.v, row + static_cast<int>(args.view.layout.k_head_bytes) / kRowBytes);
  }
  // copy(row of the keys, to, barrier) by a lane for each block of a tile, each of which says how much is to come.
  // Blocks that are not there leave what lay in their place.
  template <class Copy>
  __device__ void copy_tile(std::byte* to, std::uint64_t& barrier, const Copy& copy) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = __shfl_sync(0xffffffff, begun_row, tile * kBlocksOfTile + lane % kBlocksOfTile);
    if (lane >= kBlocksOfTile) return;
    const std::uint32_t full = hopper::shared_address(&barrier);
    hopper::arrive_and_expect(full, row == kNowhere ? 0 : kBlockBytes);
    if (row != kNowhere) copy(row, hopper::shared_address(to + lane * kBlockBytes), full);
  }
  __device__ void fetch_values(int of_tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = __shfl_sync(0xffffffff, begun_row, of_tile * kBlocksOfTile + lane % kBlocksOfTile);
    const bool old = begun.first_key() + (of_tile + 1) * kTileTokens <= begun.item.query;
    if (!old || lane >= kBlocksOfTile || row == kNowhere) return;
    hopper::fetch_box_in_3d(values_behind(row));
  }
};

// Tiles of an item whose keys and values are all there, and seen by all rows: they come first.
__device__ inline int plain_tiles(const KvView& view, const RowsOfWarp& rows, const WalkItem& of) {
  const unsigned missing = missing_of(of);
  int out = 0;
  for (; out < of.tiles(); ++out) {
    const Position first = of.first_key() + out * kTileTokens;
    if (!sees_all(view, rows, first) || missing_in(missing, out) != 0) break;
  }
  return out;
}

// Queries and places of rows, from one item to the next: often those of the same rows. Where they lie is found before
// they are read: it takes as long, and needs nothing of the kernels ahead.
template <class Half, int kDim>
struct RowsOfItem {
  Queries<kDim> q;
  RowsOfWarp places;
  int plain = 0;  // tiles of the item: see plain_tiles()

  __device__ void look_at(const TileRows& rows, const WalkItem& of) {
    const bool same = rows.item.row == row_ && rows.head(0) == head_ && rows.item.query == places.first;
    if (!same) {
      row_ = rows.item.row;
      head_ = rows.head(0);
      places = rows.seen();
      query_ = query_of_thread<kDim>(rows);
      read_ = false;
    }
    plain = plain_tiles(rows.args.view, places, of);
    asm volatile("" : "+l"(query_), "+r"(plain));  // found here, not where they are used
  }
  __device__ void read() {
    if (!read_) load_queries<Half>(query_, q);
    read_ = true;
  }

 private:
  int row_ = -1;
  int head_ = -1;                 // the first query head
  const float* query_ = nullptr;  // see query_of_thread()
  bool read_ = true;
};

// All items that the warp takes. `finished(item, rows, sums)`: sums of an item's split are complete.
template <class Half, int kDim, class Source, class Finished>
__device__ void attend_to_boxed_items(BoxedCopies<kDim, Source>& copies, Finished&& finished) {
  using Places = HalvedPlaces<kDim>;
  const AttentionArgs& args = copies.args;
  BoxedRoom<kDim>& room = copies.room;
  BoxedBarriers& barriers = copies.barriers;
  RowsOfItem<Half, kDim> rows;
  const bool began = copies.begin_early();
  typename Source::Item now = copies.begun;
  int kv_head = copies.begun_head;
  if (now.valid()) rows.look_at({args, now.item, kv_head}, now);
  Order::of_items(args).wait_for_rows();
  copies.walk.begin();
  if (!began) {
    copies.next_keys();
    copies.next_values();
  }
  unsigned parity = 0;
  while (now.valid()) {
    rows.read();
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < now.tiles(); ++tile, parity ^= 1U) {
      Scores s;
      hopper::wait(hopper::shared_address(&barriers.k), parity);
      multiply_keys<Half, Places, kDim>(rows.q, shared_address(room.k), s);
      __syncwarp();
      copies.next_keys();
      const Position first = now.first_key() + tile * kTileTokens;
      if (tile >= rows.plain) mask(args.view, rows.places, first, s);
      soften(rows.places.factor, s, sums);
      hopper::wait(hopper::shared_address(&barriers.v), parity);
      if (tile >= rows.plain) {
        clear_missing<kDim, Places>(now, tile, room.v);
        if (keep_infinities_apart<Half, Places>(args.view, rows.places, first, room.v, sums)) {
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before the copy engine writes there again
        }
      }
      multiply_values<Half, Places>(s, shared_address(room.v), sums);
      __syncwarp();
      copies.next_values();
    }
    finished(now, TileRows{args, now.item, kv_head}, sums);
    now = copies.begun.index == now.index ? typename Source::Item{} : copies.begun;
    kv_head = copies.begun_head;
    if (now.valid()) rows.look_at({args, now.item, kv_head}, now);
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
