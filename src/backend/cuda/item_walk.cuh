// How a warp of a persistent kernel goes through its items: what the next ones need is read long before.
#pragma once

#include "backend/cuda/tile_rows.cuh"

namespace kvasir::cuda {

inline constexpr int kBlocksOfSplit = kSplitTokens / kBlockOfTile;

// An item and KV head, as a warp sees it. Lane i has the number of block i of the split, or kNoBlock where the
// sequence ends before it.
struct WalkItem {
  AttentionItem item;
  int index = -1;  // item and KV head, KV heads fastest: those lie side by side. -1: none
  BlockId ids = kNoBlock;
  bool opens = true;   // the first of its span
  bool closes = true;  // the last

  __device__ bool valid() const { return index >= 0; }
  __device__ Position first_key() const { return static_cast<Position>(item.first_key) * kSplitTokens; }
  __device__ int tiles() const {
    const Position keys = item.query + item.tokens - first_key();  // that the last row may see
    return keys >= kSplitTokens ? kSplitTokens / kTileTokens
                                : static_cast<int>((keys + kTileTokens - 1) / kTileTokens);
  }
  __device__ void read_ids() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const Position first = first_key() + lane * kBlockOfTile;
    const bool there = valid() && lane < kBlocksOfSplit && first < item.query + item.after;
    ids = there ? item.blocks[first / kBlockOfTile] : kNoBlock;
  }
  // The block of 16 tokens at `at` of the split, the same in all lanes.
  __device__ BlockId block(int at) const { return __shfl_sync(0xffffffff, ids, at); }
};

// Without its blocks; none from `end` on.
__device__ inline WalkItem read_item(const AttentionArgs& args, int index, int end) {
  WalkItem out;
  if (index >= end) return out;
  out.item = args.items[index / args.view.layout.shape.heads];
  out.index = index;
  return out;
}

// The splits that a warp takes where thread blocks take whole spans, each every gridDim.x-th: a block's warps take
// turns at the splits of its spans.
class SpanWalk {
 public:
  __device__ explicit SpanWalk(const AttentionArgs& args) : args_(args), turn_(static_cast<int>(threadIdx.x) / 32) {
    look_from(0);
  }

  __device__ WalkItem next() {
    int splits = 0;
    for (;; ++span_) {
      if (span_ == seen_ + 32) look_from(span_);
      splits = __shfl_sync(0xffffffff, splits_, span_ - seen_);
      if (splits < 0) return {};
      if (turn_ < before_ + splits) break;
      before_ += splits;
    }
    const int heads = args_.view.layout.shape.heads;
    const int split = turn_ - before_;
    const int item = __shfl_sync(0xffffffff, first_item_, span_ - seen_) + split;
    WalkItem out = read_item(args_, item * heads + unit(span_) % heads, args_.item_count * heads);
    out.opens = split == 0;
    out.closes = split + 1 == splits;
    turn_ += static_cast<int>(blockDim.x) / 32;
    return out;
  }

 private:
  // Span and KV head, KV heads fastest.
  __device__ static int unit(int span) { return static_cast<int>(blockIdx.x) + span * static_cast<int>(gridDim.x); }
  // Lane i has span first + i of this block.
  __device__ void look_from(int first) {
    seen_ = first;
    const int of = unit(first + static_cast<int>(threadIdx.x) % 32) / args_.view.layout.shape.heads;
    const bool there = args_.folds_spans && of < args_.span_count;
    const SpanItems items = there ? args_.spans[args_.first_span + of] : SpanItems{0, -1};
    splits_ = items.splits;
    first_item_ = items.first_item - args_.first_item;
  }

  const AttentionArgs& args_;
  int turn_;        // of this warp's next split, among all splits of the block
  int span_ = 0;    // of the block: that which the last split was of
  int before_ = 0;  // splits of the block before that span
  int seen_ = 0;
  int splits_ = 0;
  int first_item_ = 0;
};

// Which items a warp takes: its first ones by its number, so that all can begin at once, then from those that are
// left, since processors are not equally near to all of the memory.
class TicketSource {
 public:
  using Item = WalkItem;
  static constexpr bool kReadsItems = true;

  // Needs nothing of the kernels before this one, nor does given(); begin() and take() do.
  __device__ explicit TicketSource(const AttentionArgs& args)
      : args_(args),
        own_(static_cast<int>(blockIdx.x) + static_cast<int>(threadIdx.x) / 32 * static_cast<int>(gridDim.x)) {}
  // As often by each warp.
  __device__ WalkItem given() {
    const int warps = static_cast<int>(gridDim.x * blockDim.x) / 32;
    given_ += warps;
    return read_item(args_, own_ + given_ - warps, end());
  }
  __device__ void begin() { ticket_ = draw(); }
  __device__ WalkItem take() {
    const WalkItem out = read_item(args_, __shfl_sync(0xffffffff, ticket_, 0), end());
    ticket_ = draw();
    return out;
  }

 private:
  __device__ int end() const { return args_.item_count * args_.view.layout.shape.heads - args_.reserved; }
  __device__ int draw() const { return threadIdx.x % 32 == 0 ? given_ + atomicAdd(args_.taken, 1) : 0; }

  const AttentionArgs& args_;
  int own_;
  int given_ = 0;  // items that warps have by their numbers
  int ticket_ = 0;
};

// The same, but for the last items, which those thread blocks take that have time (AttentionArgs::reserved), and no
// tickets.
class ReservedSource {
 public:
  __device__ explicit ReservedSource(const AttentionArgs& args) : args_(args), tickets_(args) {}
  __device__ WalkItem given() {
    const WalkItem out = tickets_.given();
    return !out.valid() && has_time() ? take_reserved() : out;
  }
  __device__ void begin() {
    if (!has_time()) tickets_.begin();
  }
  __device__ WalkItem take() { return has_time() ? take_reserved() : tickets_.take(); }

 private:
  __device__ bool has_time() const { return args_.reserved > 0 && blockIdx.x >= args_.busy_blocks; }
  __device__ WalkItem take_reserved() {
    const int end = args_.item_count * args_.view.layout.shape.heads;
    const int blocks = static_cast<int>(gridDim.x - args_.busy_blocks);
    const int number = static_cast<int>(blockIdx.x - args_.busy_blocks) + static_cast<int>(threadIdx.x) / 32 * blocks;
    const int index = end - args_.reserved + taken_ + number;
    taken_ += blocks * static_cast<int>(blockDim.x) / 32;
    return read_item(args_, index, end);
  }

  const AttentionArgs& args_;
  TicketSource tickets_;
  int taken_ = 0;  // of those items, by all who have time as often as by this warp
};

// By their numbers and tickets, or those of spans where these are folded.
template <class Tickets = TicketSource>
class SpanSource {
 public:
  using Item = WalkItem;
  static constexpr bool kReadsItems = true;

  __device__ explicit SpanSource(const AttentionArgs& args) : args_(args), tickets_(args), spans_(args) {}
  __device__ WalkItem given() { return args_.folds_spans ? spans_.next() : tickets_.given(); }
  __device__ void begin() {
    if (!args_.folds_spans) tickets_.begin();
  }
  __device__ WalkItem take() { return args_.folds_spans ? spans_.next() : tickets_.take(); }

 private:
  const AttentionArgs& args_;
  Tickets tickets_;
  SpanWalk spans_;
};

// The items behind these: blocks of the next one are asked for, and the one behind it, where the source reads items.
template <class Source>
__device__ void read_ahead(Source& source, typename Source::Item& next, typename Source::Item& read) {
  if constexpr (Source::kReadsItems) {
    next = read;
    next.read_ids();
    read = source.take();
  } else {
    next = source.take();
    next.read_ids();
  }
}

// The items that a warp takes, one after the other. What an item needs is read in three steps, each an item ahead of
// the next: or in two, where its source reads none.
template <class Source>
class ItemWalk {
 public:
  using Item = typename Source::Item;

  // Needs nothing of the kernels before this one; begin() does.
  __device__ explicit ItemWalk(const AttentionArgs& args) : args_(args), source_(args) {
    now_ = source_.given();
    now_.read_ids();
    next_ = source_.given();
    if constexpr (Source::kReadsItems) read_ = source_.given();
    next_.read_ids();
  }
  __device__ void begin() { source_.begin(); }

  __device__ const Item& at() const { return now_; }
  __device__ int kv_head() const { return now_.index % args_.view.layout.shape.heads; }

  __device__ void advance() {
    now_ = next_;
    read_ahead(source_, next_, read_);
  }

 private:
  const AttentionArgs& args_;
  Source source_;
  Item now_, next_, read_;  // the last only where it is read
};

// The queries of an item into shared memory, by asynchronous copies.
template <int kDim>
__device__ void copy_queries(const TileRows& rows, std::uint32_t to) {
  constexpr int kChunksOfRow = kDim / 8;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < rows.count() * kChunksOfRow; i += 32) {
    const int row = i / kChunksOfRow;
    const int chunk = i % kChunksOfRow;
    copy_async(to + row_chunk<kDim>(row, chunk), rows.args.q + rows.state(row) * rows.args.k_stride + chunk * 8, 16);
  }
}

}  // namespace kvasir::cuda
