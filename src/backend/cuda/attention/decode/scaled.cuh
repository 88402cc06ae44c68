// The main loop of the kernels over KV formats with scales, in usual blocks on Hopper. int.cu and fp8.cu say how a
// block is copied and multiplied.
//
// Each warp has shared memory for one tile of keys and one of values, each refilled as soon as it was multiplied.
// Scores have tokens in the format's order, in which transposed weights are the operand that its values want.
//
// A Format has
//   token_of(half)                 of a block, in elements 2 half and 2 half + 1 of its scores
//   kKeyBytes, kValueBytes         of a block; values follow keys
//   kScalesApart                   whether scales are copied apart; else they follow the values
//   kValueFactor                   of value scales, since values are divided by it
//   load_queries(rows)
//   copy_keys, copy_values(block, from, barrier)   by one lane, from the block's keys or values
//   prefetch_values(from)          into L2
//   scales_of(block)               where scales of its keys and then of its values go, kScalesOfBlock bytes
//   multiply_keys(block, scores)   without scales
//   k_scales, v_scales(block)      of tokens 2g and 2g + 1, in one word
//   add_values(block, weights, sums)
//   write_sums(sums, i, to)        of row 2t + i
//   each(sums, i, take)            the same number by number, see epilogue_tile.cuh
#pragma once

#include "backend/cuda/arch/hopper.cuh"
#include "backend/cuda/attention/decode/reduce_chunk_group.cuh"
#include "backend/cuda/attention/decode/reduce_row.cuh"
#include "backend/cuda/attention/decode/work_queue.cuh"
#include "backend/cuda/attention/epilogue_tile.cuh"
#include "backend/cuda/runtime/pdl_launch.h"

namespace kvasir::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// An item whose tiles are copied or multiplied.
template <class Item>
struct ScaledItem {
  WorkItem item;
  int index;  // see WarpItem
  int kv_head;
  int tiles;
  bool first_of_group, last_of_group;  // see WarpItem
  bool same_rows;                      // as the item before it
};
template <>
struct ScaledItem<RowItem> : ScaledItem<WarpItem> {
  RowOrder row_order;
};

__device__ inline bool has_same_rows(const ScaledItem<WarpItem>& before, const WorkItem& item, int kv_head) {
  return before.item.row == item.row && before.item.first_head == item.first_head &&
         before.item.query == item.query && before.kv_head == kv_head;
}

// Shared memory of one warp.
template <class Item>
struct ScaledSmem {
  ScaledItem<Item> items[2];  // one is multiplied, the next one may be started
  std::uint64_t keys_there;
  std::uint64_t values_there;

  __device__ void init() {
    if (threadIdx.x % 32 == 0) {
      hopper::barrier_init(hopper::shared_address(&keys_there), kBlocksOfTile);
      hopper::barrier_init(hopper::shared_address(&values_there), kBlocksOfTile);
      hopper::fence_barrier_init();
    }
    __syncwarp();
  }
};

template <class Format, class Source>
struct ScaledCopies {
  using Item = typename Source::Item;
  static constexpr int kScalesOfBlock = 2 * kBlockOfTile * kScaleBytes;

  const AttentionArgs& args;
  Format& format;
  ScaledSmem<Item>& smem;
  ItemQueue<Source> items;
  int started = 0;  // items
  int tile = 0;     // of the last started item: the next one to copy
  int tiles = 0;
  unsigned multiplied = 0;           // tiles of all items
  const std::byte* block = nullptr;  // keys of the lane's block of the chunk; null: there is none

  // Whether the lane copies its block, which is in the current tile. Each such lane announces its bytes. Absent
  // blocks leave their shared memory as it is.
  __device__ bool copies(std::uint32_t barrier, int bytes) const {
    if (static_cast<int>(threadIdx.x) % 32 / kBlocksOfTile != tile) return false;
    hopper::arrive_and_expect(barrier, block == nullptr ? 0 : static_cast<std::uint32_t>(bytes));
    return block != nullptr;
  }
  __device__ static int block_of_tile() { return static_cast<int>(threadIdx.x) % kBlocksOfTile; }

  __device__ void next_keys() {
    if (tile == tiles) {
      if (items.empty()) return;
      begin();
    }
    const std::uint32_t barrier = hopper::shared_address(&smem.keys_there);
    if (copies(barrier, Format::kKeyBytes)) format.copy_keys(block_of_tile(), block, barrier);
  }
  // Called after next_keys() of the same tile.
  __device__ void next_values() {
    if (tile == tiles) return;
    const std::uint32_t barrier = hopper::shared_address(&smem.values_there);
    if (copies(barrier, Format::kValueBytes + kScalesOfBlock)) {
      format.copy_values(block_of_tile(), block + Format::kKeyBytes, barrier);
      if constexpr (Format::kScalesApart) {
        hopper::bulk_load(hopper::shared_address(format.scales_of(block_of_tile())), block + to_scales(),
                          kScalesOfBlock, barrier);
      }
    }
    ++tile;
  }
  // Loads the first tile before pdl_wait(), if no predecessor writes it, and prefetches the next values into L2, so
  // that the memory is not idle meanwhile.
  __device__ bool load_before_pdl_wait() {
    if (items.empty()) return false;
    const Item& first = items.next();
    const bool old = args.loads_before_pdl_wait && first.first_key() + kTileTokens <= first.item.query;
    // Not if the next item may be of a row that is popped.
    if (!old || (args.pops_last_rows && first.last_of_group)) return false;
    const bool next_is_old = first.first_key() + 2 * kTileTokens <= first.item.query;
    next_keys();
    next_values();
    if (next_is_old && block != nullptr && static_cast<int>(threadIdx.x) % 32 / kBlocksOfTile == tile) {
      format.prefetch_values(block + Format::kKeyBytes);
    }
    return true;
  }
  // From a block's keys to its scales; computed each time, since registers are scarce.
  __device__ int to_scales() const {
    const int head = smem.items[(started - 1) % 2].kv_head;
    return (args.view.layout.shape.heads - head) * (Format::kKeyBytes + Format::kValueBytes) + head * kScalesOfBlock;
  }
  __device__ void begin() {
    const Item& of = items.next();
    block = of.ids == kNoBlock ? nullptr : args.view.k_head(of.ids, items.kv_head());
    tile = 0;
    tiles = of.tiles();
    ScaledItem<WarpItem>& kept = smem.items[started % 2];
    const bool same = started > 0 && has_same_rows(smem.items[(started - 1) % 2], of.item, items.kv_head());
    kept = {of.item, of.index, items.kv_head(), tiles, of.first_of_group, of.last_of_group, same};
    if constexpr (std::is_same_v<Item, RowItem>) smem.items[started % 2].row_order = of.row_order;
    ++started;
    __syncwarp();
    items.drop();
  }
};

// The scale of token_of(half).
template <class Format>
__device__ float scale_of(std::uint32_t two, int half) {
  const bool second = Format::token_of(half) % 2 != 0;
  return __uint_as_float(second ? two & 0xffff0000U : two << 16);
}

template <class Format>
__device__ void scale_scores(std::uint32_t scales, float (&s)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float scale = scale_of<Format>(scales, half);
    s[half * 2] = __fmul_rn(s[half * 2], scale);
    s[half * 2 + 1] = __fmul_rn(s[half * 2 + 1], scale);
  }
}

// Scales weights for values with scales. Tokens that no row sees stay 0, whatever memory holds as their scale.
template <class Format>
__device__ void scale_weights(std::uint32_t scales, float (&weights)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float scale = scale_of<Format>(scales, half);
    if constexpr (Format::kValueFactor != 1.0F) scale = __fmul_rn(scale, Format::kValueFactor);
#pragma unroll
    for (int i = half * 2; i < half * 2 + 2; ++i) {
      weights[i] = weights[i] == 0.0F ? 0.0F : __fmul_rn(weights[i], scale);
    }
  }
}

template <class Format, int kDim>
__device__ void write_sums(const TileRows& rows, std::int64_t index, const Sums<kDim>& sums) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_pair() * 2 + i;
    if (row >= rows.count()) continue;
    const std::int64_t at = index * kTileRows + row;
    Format::write_sums(sums, i, rows.args.partial_out + at * kDim);
    if (lane_group() == 0) rows.args.partial_states[at] = {sums.m[i], sums.d[i]};
  }
}

// One tile, whose keys and values are in flight or there.
template <class Format, class Source, int kDim>
__device__ void attend_tile(ScaledCopies<Format, Source>& copies, const TileRows& rows, const float (&factor)[2],
                            int tile, Sums<kDim>& sums) {
  Format& format = copies.format;
  const unsigned parity = copies.multiplied++ % 2;
  Scores s;
  hopper::wait(hopper::shared_address(&copies.smem.keys_there), parity);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) format.multiply_keys(block, s[block]);
  __syncwarp();
  copies.next_keys();
  hopper::wait(hopper::shared_address(&copies.smem.values_there), parity);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) scale_scores<Format>(format.k_scales(block), s[block]);
  const Position first = static_cast<Position>(rows.item.first_key) * kChunkTokens + tile * kTileTokens;
  mask(
      copies.args.view, rows.positions(), first, [](int half) { return Format::token_of(half); }, s);
  soften(factor, s, sums);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    add_weights<HalfBF16>(transposed<HalfBF16>(s[block]), sums);
    scale_weights<Format>(format.v_scales(block), s[block]);
    format.add_values(block, transposed<HalfBF16>(s[block]), sums);
  }
  __syncwarp();
  copies.next_values();
}

// Writes partials of every chunk.
template <class Format>
struct OnChunk {
  template <int kDim>
  __device__ void operator()(const ScaledItem<WarpItem>& item, const TileRows& rows, const Sums<kDim>& sums) const {
    write_sums<Format>(rows, item.index, sums);
  }
};
// Writes partials of every chunk, or of every group if merges_chunk_groups. Used by all warps of a CTA.
template <class Format, int kDim>
struct OnGroup {
  const AttentionArgs& args;
  GroupMerge<kDim> chunk_groups;

  __device__ void operator()(const ScaledItem<WarpItem>& item, const TileRows& rows, Sums<kDim>& sums) {
    if (args.merges_chunk_groups && !chunk_groups.merge(item.first_of_group, item.last_of_group, sums)) return;
    write_sums<Format>(rows, item.index, sums);
  }
};
// Merges whole rows and writes their outputs. Used by all warps of a CTA.
template <class Format, int kDim, int kWarps>
struct OnRow {
  RowMerge<kDim, kWarps> rows_of_block;

  __device__ void operator()(const ScaledItem<RowItem>& item, const TileRows& rows, Sums<kDim>& sums) {
    if (!rows_of_block.merge(item, sums)) return;
    const auto each = [](const Sums<kDim>& all, int i, const auto& take) { Format::each(all, i, take); };
    if constexpr (Format::kHadamard) {
      hadamard_tile_epilogue(rows, sums, each, rows_of_block.own());
    } else {
      tile_epilogue(rows, sums, each);
    }
  }
};

// Processes all items of the warp. `on_complete(item, rows, sums)` gets the sums of each chunk. Before pdl_wait()
// nothing is read that predecessors write.
template <class Source, class Format, int kDim, class OnComplete>
__device__ void attend_scaled_items(const AttentionArgs& args, Format& format,
                                    ScaledSmem<typename Source::Item>& smem, OnComplete&& on_complete) {
  smem.init();
  ScaledCopies<Format, Source> copies{args, format, smem, ItemQueue<Source>(args)};
  // Sources with tickets have no tickets before pdl_wait().
  bool began = false;
  if constexpr (std::is_same_v<Source, RowScheduler>) began = copies.load_before_pdl_wait();
  pdl_wait();
  copies.items.begin();
  if (!began) {
    copies.next_keys();
    copies.next_values();
  }
  float factor[2];
  for (int done = 0; done < copies.started; ++done) {
    const auto& now = smem.items[done % 2];
    const TileRows rows{args, now.item, now.kv_head};
    if (std::is_same_v<Source, TicketSource> || !now.same_rows) {  // with tickets they seldom are
      factor[0] = rows.factor(0);
      factor[1] = rows.factor(1);
      format.load_queries(rows);
    }
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < now.tiles; ++tile) attend_tile(copies, rows, factor, tile, sums);
    on_complete(now, rows, sums);
  }
}

// (x & mask) | bits in one instruction.
template <std::uint32_t kMask, std::uint32_t kBits>
__device__ std::uint32_t masked_or(std::uint32_t x) {
  std::uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(x), "n"(kMask), "n"(kBits));
  return out;
}

#endif

}  // namespace kvasir::cuda
