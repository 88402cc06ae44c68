// How kernels over formats with scales, in blocks of 16 tokens, go through their items on Hopper: packed_attention.cu
// and fp8_attention.cu say how a block is copied and multiplied.
//
// Each warp has room for one tile of keys and one of values; the next ones are on their way into them as soon as they
// were multiplied. Scores have the tokens in an order of the format's, in which weights turned over are the other
// side of its values.
//
// A Format has
//   token_of(half)                      of 16, in elements 2 half and 2 half + 1 of a block's scores
//   kKeyBytes, kValueBytes              of a block; its values lie behind its keys, and scales of both elsewhere
//                                       (kScalesApart) or behind those
//   kValueFactor                        what scales of values are multiplied by, since values are divided by it
//   load_queries(rows)
//   copy_keys, copy_values(block, from, barrier)   by one lane; `from` is where the block's keys lie, or its values;
//                                       with the scales, where these lie behind them
//   fetch_values(from)                  as far as the second-level cache, likewise; scales only where they lie behind
//   scales_of(block)                    room for those of its keys, and then of its values, kScalesOfBlock bytes
//   multiply_keys(block, scores)        without scales
//   k_scales, v_scales(block)           of the tokens 2g and 2g + 1, in one word
//   add_values(block, weights, sums)
//   write_sums(sums, i, to)             of the row 2t + i
//   each(sums, i, take)                 the same, number by number: see finished_tile.cuh
#pragma once

#include "backend/cuda/finished_tile.cuh"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/item_walk.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/row_fold.cuh"
#include "backend/cuda/span_fold.cuh"

namespace kvasir::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// The items that a warp takes, as ItemWalk gives them, but none is held here once it is taken.
template <class Source>
class ItemQueue {
 public:
  using Item = typename Source::Item;

  // Needs nothing of the kernels before this one; begin() does.
  __device__ explicit ItemQueue(const AttentionArgs& args) : args_(args), source_(args) {
    next_ = source_.given();
    if constexpr (Source::kReadsItems) read_ = source_.given();
    next_.read_ids();
  }
  __device__ void begin() { source_.begin(); }

  __device__ bool empty() const { return !next_.valid(); }
  __device__ const Item& next() const { return next_; }
  __device__ int kv_head() const { return next_.index % args_.view.layout.shape.heads; }
  __device__ void drop() { read_ahead(source_, next_, read_); }

 private:
  const AttentionArgs& args_;
  Source source_;
  Item next_, read_;  // the latter only where it is read
};

// An item whose tiles are copied or multiplied: what is kept of an Item.
template <class Item>
struct ScaledItem {
  AttentionItem item;
  int index;  // see WalkItem
  int kv_head;
  int tiles;
  bool opens, closes;  // see WalkItem
  bool same_rows;      // as the item before it has
};
template <>
struct ScaledItem<RowItem> : ScaledItem<WalkItem> {
  RowTurn row_turn;
};

__device__ inline bool has_same_rows(const ScaledItem<WalkItem>& before, const AttentionItem& item, int kv_head) {
  return before.item.row == item.row && before.item.first_head == item.first_head && before.item.query == item.query &&
         before.kv_head == kv_head;
}

// Of one warp, in shared memory.
template <class Item>
struct ScaledRoom {
  ScaledItem<Item> items[2];  // one is multiplied, and the next one may be begun
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
  ScaledRoom<Item>& room;
  ItemQueue<Source> items;
  int begun = 0;  // items
  int tile = 0;   // of the last of those: the next one that is copied
  int tiles = 0;
  unsigned multiplied = 0;           // tiles, of all items
  const std::byte* block = nullptr;  // where the keys of the lane's block of the split lie; null: there is none

  // Whether the lane copies its block, which is one of the tile. Each such lane says how many bytes are to come. Blocks
  // that are not there leave what lay in their place.
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
    const std::uint32_t barrier = hopper::shared_address(&room.keys_there);
    if (copies(barrier, Format::kKeyBytes)) format.copy_keys(block_of_tile(), block, barrier);
  }
  // Behind next_keys() of the same tile.
  __device__ void next_values() {
    if (tile == tiles) return;
    const std::uint32_t barrier = hopper::shared_address(&room.values_there);
    if (copies(barrier, Format::kValueBytes + kScalesOfBlock)) {
      format.copy_values(block_of_tile(), block + Format::kKeyBytes, barrier);
      if constexpr (Format::kScalesApart) {
        hopper::copy_bytes(hopper::shared_address(format.scales_of(block_of_tile())), block + to_scales(),
                           kScalesOfBlock, barrier);
      }
    }
    ++tile;
  }
  // The first tile, before the kernels ahead have ended, where none of them writes what it is made of; and values of
  // the next one as far as the second-level cache, so that the memory is not idle until they have.
  __device__ bool begin_early() {
    if (items.empty()) return false;
    const Item& first = items.next();
    const bool old = args.begins_early && first.first_key() + kTileTokens <= first.item.query;
    // The item behind it is looked for at once: not where that may be one of a row that is drawn.
    if (!old || (args.draws_rows && first.closes)) return false;
    const bool next_is_old = first.first_key() + 2 * kTileTokens <= first.item.query;
    next_keys();
    next_values();
    if (next_is_old && block != nullptr && static_cast<int>(threadIdx.x) % 32 / kBlocksOfTile == tile) {
      format.fetch_values(block + Format::kKeyBytes);
    }
    return true;
  }
  // From a block's keys; found anew each time, since registers are scarce.
  __device__ int to_scales() const {
    const int head = room.items[(begun - 1) % 2].kv_head;
    return (args.view.layout.shape.heads - head) * (Format::kKeyBytes + Format::kValueBytes) + head * kScalesOfBlock;
  }
  __device__ void begin() {
    const Item& of = items.next();
    block = of.ids == kNoBlock ? nullptr : args.view.k_head(of.ids, items.kv_head());
    tile = 0;
    tiles = of.tiles();
    ScaledItem<WalkItem>& kept = room.items[begun % 2];
    const bool same = begun > 0 && has_same_rows(room.items[(begun - 1) % 2], of.item, items.kv_head());
    kept = {of.item, of.index, items.kv_head(), tiles, of.opens, of.closes, same};
    if constexpr (std::is_same_v<Item, RowItem>) room.items[begun % 2].row_turn = of.row_turn;
    ++begun;
    __syncwarp();
    items.drop();
  }
};

// The scale of token_of(half), of those in the word.
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

// Weights become those of values with scales: of a token that nobody sees 0, whatever lies in the place of its scale.
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
    Format::write_sums(sums, i, rows.args.part_out + at * kDim);
    if (lane_group() == 0) rows.args.part_states[at] = {sums.m[i], sums.d[i]};
  }
}

// A tile of keys and values that are on their way, or there, of rows whose scores are multiplied by `factor`.
template <class Format, class Source, int kDim>
__device__ void attend_to_tile(ScaledCopies<Format, Source>& copies, const TileRows& rows, const float (&factor)[2],
                               int tile, Sums<kDim>& sums) {
  Format& format = copies.format;
  const unsigned parity = copies.multiplied++ % 2;
  Scores s;
  hopper::wait(hopper::shared_address(&copies.room.keys_there), parity);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) format.multiply_keys(block, s[block]);
  __syncwarp();
  copies.next_keys();
  hopper::wait(hopper::shared_address(&copies.room.values_there), parity);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) scale_scores<Format>(format.k_scales(block), s[block]);
  const Position first = static_cast<Position>(rows.item.first_key) * kSplitTokens + tile * kTileTokens;
  mask(
      copies.args.view, rows.places(), first, [](int half) { return Format::token_of(half); }, s);
  soften(factor, s, sums);
#pragma unroll
  for (int block = 0; block < kBlocksOfTile; ++block) {
    add_weights<HalfBF16>(turned_over<HalfBF16>(s[block]), sums);
    scale_weights<Format>(format.v_scales(block), s[block]);
    format.add_values(block, turned_over<HalfBF16>(s[block]), sums);
  }
  __syncwarp();
  copies.next_values();
}

// Where no spans are folded: what is done with the sums of a split.
template <class Format>
struct EverySplit {
  template <int kDim>
  __device__ void operator()(const ScaledItem<WalkItem>& item, const TileRows& rows, const Sums<kDim>& sums) const {
    write_sums<Format>(rows, item.index, sums);
  }
};
// By all warps of a block.
template <class Format, int kDim>
struct EverySpan {
  const AttentionArgs& args;
  SpanFold<kDim> spans;

  __device__ void operator()(const ScaledItem<WalkItem>& item, const TileRows& rows, Sums<kDim>& sums) {
    if (args.folds_spans && !spans.fold(item.opens, item.closes, sums)) return;
    write_sums<Format>(rows, item.index, sums);
  }
};
// Where rows are whole, by all warps of a block too.
template <class Format, int kDim, int kWarps>
struct EveryRow {
  RowFold<kDim, kWarps> rows_of_block;

  __device__ void operator()(const ScaledItem<RowItem>& item, const TileRows& rows, Sums<kDim>& sums) {
    if (!rows_of_block.fold(item, sums)) return;
    const auto each = [](const Sums<kDim>& all, int i, const auto& take) { Format::each(all, i, take); };
    if constexpr (Format::kTurned) {
      finish_turned_tile(rows, sums, each, rows_of_block.own());
    } else {
      finish_tile(rows, sums, each);
    }
  }
};

// All items that the warp takes from the source. Until the kernels ahead have ended only what the host sent is read.
// `finished(item, rows, sums)`: sums of an item's split are complete.
template <class Source, class Format, int kDim, class Finished>
__device__ void attend_to_scaled_items(const AttentionArgs& args, Format& format,
                                       ScaledRoom<typename Source::Item>& room, Finished&& finished) {
  room.init();
  ScaledCopies<Format, Source> copies{args, format, room, ItemQueue<Source>(args)};
  // Who takes items by tickets has none until then.
  bool began = false;
  if constexpr (std::is_same_v<Source, RowWalk>) began = copies.begin_early();
  wait_for_forerunners();
  copies.items.begin();
  if (!began) {
    copies.next_keys();
    copies.next_values();
  }
  float factor[2];
  for (int done = 0; done < copies.begun; ++done) {
    const auto& now = room.items[done % 2];
    const TileRows rows{args, now.item, now.kv_head};
    if (std::is_same_v<Source, TicketSource> || !now.same_rows) {  // by tickets they seldom are
      factor[0] = rows.factor(0);
      factor[1] = rows.factor(1);
      format.load_queries(rows);
    }
    Sums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < now.tiles; ++tile) attend_to_tile(copies, rows, factor, tile, sums);
    finished(now, rows, sums);
  }
}

// (x & mask) | bits, in one instruction.
template <std::uint32_t kMask, std::uint32_t kBits>
__device__ std::uint32_t masked_or(std::uint32_t x) {
  std::uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(x), "n"(kMask), "n"(kBits));
  return out;
}

#endif

}  // namespace kvasir::cuda
