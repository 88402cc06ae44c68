// The main loop of the TMA decode kernels: each warp processes items alone. A box is K, or V, of one block and head,
// with the 128-byte swizzle; V comes in halves (HalvedSmemLayout).
//
// Each warp has shared memory for one tile of keys and one of values, each refilled as soon as it was multiplied.
// Queries are cast straight into registers.
#pragma once

#include "backend/cuda/attention/decode/tma_tiles.cuh"
#include "backend/cuda/attention/epilogue_tile.cuh"

namespace kvasir::cuda {

template <int kDim>
struct alignas(kBoxAlignment) TmaSmem {
  static constexpr int kTileBytes = kTileTokens * kDim * 2;
  std::byte k[kTileBytes];
  std::byte v[kTileBytes];
};

struct TmaMaps {
  CUtensorMap k;
  CUtensorMap v;
};
inline TmaMaps tma_maps(const KvView& view, Number number) {
  return {tma_map_of_blocks(view, number), tma_map_of_halves(view, number)};
}

// Shared memory of one warp.
struct TmaBarriers {
  std::uint64_t k;
  std::uint64_t v;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline void init_barriers(TmaBarriers& barriers) {
  if (threadIdx.x % 32 == 0) {
    hopper::barrier_init(hopper::shared_address(&barriers.k), kBlocksOfTile);
    hopper::barrier_init(hopper::shared_address(&barriers.v), kBlocksOfTile);
    hopper::fence_barrier_init();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
}

// Issues the copies. One tile of keys and values is in flight or unused.
template <int kDim, class Source>
struct TmaCopies {
  const AttentionArgs& args;
  const TmaMaps& maps;
  TmaSmem<kDim>& smem;
  TmaBarriers& barriers;
  ItemPrefetcher<Source> items;
  int tile = 0;
  typename Source::Item current{};  // the item of the last copied tile
  int current_head = 0;
  int current_row = kNowhere;  // of lane i: the keys of the item's block i, in rows of kRowBytes

  __device__ void next_keys() {
    if (!items.at().valid()) return;
    if (tile == 0) begin_item();
    copy_tile(smem.k, barriers.k, [this](int row, std::uint32_t to, std::uint32_t full) {
      hopper::tma_load(to, {&maps.k, 0, row}, full, hopper::kEvictFirst);
    });
  }
  __device__ void next_values() {
    if (!items.at().valid()) return;
    copy_tile(smem.v, barriers.v, [this](int row, std::uint32_t to, std::uint32_t full) {
      hopper::tma_load_3d(to, values_behind(row), full, hopper::kEvictFirst);
    });
    if (++tile == items.at().tiles()) {
      tile = 0;
      items.advance();
    }
  }
  // Loads the first tile before pdl_wait(), if no predecessor writes it, and prefetches the next values into L2, so
  // that the memory is not idle meanwhile. More would delay the loads of warps that still work.
  __device__ bool load_before_pdl_wait() {
    if (!items.at().valid()) return false;
    begin_item();
    const bool old = args.loads_before_pdl_wait && current.first_key() + kTileTokens <= current.item.query;
    if (old) {
      next_keys();
      next_values();
      if (current.tiles() > 1) prefetch_values(1);
    }
    return old;
  }

 private:
  static constexpr int kNowhere = -1;
  static constexpr int kBlockBytes = kBlockOfTile * kDim * 2;

  __device__ void begin_item() {
    current = items.at();
    current_head = items.kv_head();
    const std::int64_t keys = args.view.layout.k_offset(args.view.layer, current_head);
    current_row = current.ids == kNoBlock
                      ? kNowhere
                      : static_cast<int>((args.view.block_at(current.ids) - args.view.arena + keys) / kRowBytes);
  }
  __device__ hopper::TmaBox3d values_behind(int row) const {
    return halves_at<kDim>(maps.v, row + static_cast<int>(args.view.layout.k_head_bytes) / kRowBytes);
  }
  // Calls copy(row of the keys, to, barrier) in a lane for each block of a tile. Absent blocks leave their shared
  // memory as it is.
  template <class Copy>
  __device__ void copy_tile(std::byte* to, std::uint64_t& barrier, const Copy& copy) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = __shfl_sync(0xffffffff, current_row, tile * kBlocksOfTile + lane % kBlocksOfTile);
    if (lane >= kBlocksOfTile) return;
    const std::uint32_t full = hopper::shared_address(&barrier);
    hopper::arrive_and_expect(full, row == kNowhere ? 0 : kBlockBytes);
    if (row != kNowhere) copy(row, hopper::shared_address(to + lane * kBlockBytes), full);
  }
  __device__ void prefetch_values(int of_tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = __shfl_sync(0xffffffff, current_row, of_tile * kBlocksOfTile + lane % kBlocksOfTile);
    const bool old = current.first_key() + (of_tile + 1) * kTileTokens <= current.item.query;
    if (!old || lane >= kBlocksOfTile || row == kNowhere) return;
    hopper::tma_prefetch_3d(values_behind(row));
  }
};

// The number of leading tiles of an item that are complete and seen by all rows.
__device__ inline int plain_tiles(const KvView& view, const RowsOfWarp& rows, const WarpItem& of) {
  const unsigned missing = missing_of(of);
  int out = 0;
  for (; out < of.tiles(); ++out) {
    const Position first = of.first_key() + out * kTileTokens;
    if (!sees_all(view, rows, first) || missing_in(missing, out) != 0) break;
  }
  return out;
}

// The queries of an item. Consecutive items often have the same rows. Their address is found before pdl_wait(), since
// that takes as long as reading them.
template <class Half, int kDim>
struct RowsOfItem {
  Queries<kDim> q;
  RowsOfWarp positions;
  int plain = 0;  // see plain_tiles()

  __device__ void look_at(const TileRows& rows, const WarpItem& of) {
    const bool same = rows.item.row == row_ && rows.head(0) == head_ && rows.item.query == positions.first;
    if (!same) {
      row_ = rows.item.row;
      head_ = rows.head(0);
      positions = rows.seen();
      query_ = query_of_thread<kDim>(rows);
      read_ = false;
    }
    plain = plain_tiles(rows.args.view, positions, of);
    asm volatile("" : "+l"(query_), "+r"(plain));  // keeps the compiler from sinking them to their uses
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

// Processes all items of the warp. `on_complete(item, rows, sums)` gets the sums of each chunk.
template <class Half, int kDim, class Source, class OnComplete>
__device__ void attend_tma_items(TmaCopies<kDim, Source>& copies, OnComplete&& on_complete) {
  using Layout = HalvedSmemLayout<kDim>;
  const AttentionArgs& args = copies.args;
  TmaSmem<kDim>& smem = copies.smem;
  TmaBarriers& barriers = copies.barriers;
  RowsOfItem<Half, kDim> rows;
  const bool began = copies.load_before_pdl_wait();
  typename Source::Item now = copies.current;
  int kv_head = copies.current_head;
  if (now.valid()) rows.look_at({args, now.item, kv_head}, now);
  PdlOrder::of_items(args).wait_for_rows();
  copies.items.begin();
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
      multiply_keys<Half, Layout, kDim>(rows.q, shared_address(smem.k), s);
      __syncwarp();
      copies.next_keys();
      const Position first = now.first_key() + tile * kTileTokens;
      if (tile >= rows.plain) mask(args.view, rows.positions, first, s);
      soften(rows.positions.factor, s, sums);
      hopper::wait(hopper::shared_address(&barriers.v), parity);
      if (tile >= rows.plain) {
        clear_missing<kDim, Layout>(now, tile, smem.v);
        if (keep_infinities_apart<Half, Layout>(args.view, rows.positions, first, smem.v, sums)) {
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before TMA writes there again
        }
      }
      multiply_values<Half, Layout>(s, shared_address(smem.v), sums);
      __syncwarp();
      copies.next_values();
    }
    on_complete(now, TileRows{args, now.item, kv_head}, sums);
    now = copies.current.index == now.index ? typename Source::Item{} : copies.current;
    kv_head = copies.current_head;
    if (now.valid()) rows.look_at({args, now.item, kv_head}, now);
  }
}

// Writes outputs of rows whose sums are complete.
template <int kDim>
__device__ void tma_tile_epilogue(const TileRows& rows, const Sums<kDim>& sums) {
  tile_epilogue(rows, sums, [](const Sums<kDim>& all, int i, const auto& take) {
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) take(j * 8 + lane_group(), all.o[j / 2][j % 2 * 2 + i]);
  });
}

#endif

}  // namespace kvasir::cuda
