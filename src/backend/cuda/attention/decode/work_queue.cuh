// How the warps of persistent decode kernels share work items, and prefetch them.
#pragma once

#include "backend/cuda/attention/tile_rows.cuh"

namespace kvasir::cuda {

inline constexpr int kBlocksOfChunk = kChunkTokens / kBlockOfTile;

// An item and KV head, as a warp sees it. Lane i has block i of the chunk, or kNoBlock if the sequence ends before
// it.
struct WarpItem {
  WorkItem item;
  int index = -1;  // over items and KV heads, KV heads fastest; -1: none
  BlockId ids = kNoBlock;
  bool first_of_group = true;  // chunk of its chunk group
  bool last_of_group = true;

  __device__ bool valid() const { return index >= 0; }
  __device__ Position first_key() const { return static_cast<Position>(item.first_key) * kChunkTokens; }
  __device__ int tiles() const {
    const Position keys = item.query + item.tokens - first_key();  // keys that the last row may see
    return keys >= kChunkTokens ? kChunkTokens / kTileTokens
                                : static_cast<int>((keys + kTileTokens - 1) / kTileTokens);
  }
  __device__ void read_ids() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const Position first = first_key() + lane * kBlockOfTile;
    const bool there = valid() && lane < kBlocksOfChunk && first < item.query + item.after;
    ids = there ? item.blocks[first / kBlockOfTile] : kNoBlock;
  }
  // The block at `at` of the chunk, in all lanes.
  __device__ BlockId block(int at) const { return __shfl_sync(0xffffffff, ids, at); }
};

// Reads an item without its blocks; invalid from `end` on.
__device__ inline WarpItem read_item(const AttentionArgs& args, int index, int end) {
  WarpItem out;
  if (index >= end) return out;
  out.item = args.items[index / args.view.layout.shape.heads];
  out.index = index;
  return out;
}

// A warp's chunks if CTAs take whole chunk groups: each CTA every gridDim.x-th, and its warps share the chunks.
class GroupScheduler {
 public:
  __device__ explicit GroupScheduler(const AttentionArgs& args)
      : args_(args), next_chunk_(static_cast<int>(threadIdx.x) / 32) {
    look_from(0);
  }

  __device__ WarpItem next() {
    int chunks = 0;
    for (;; ++group_) {
      if (group_ == seen_ + 32) look_from(group_);
      chunks = __shfl_sync(0xffffffff, chunks_, group_ - seen_);
      if (chunks < 0) return {};
      if (next_chunk_ < before_ + chunks) break;
      before_ += chunks;
    }
    const int heads = args_.view.layout.shape.heads;
    const int chunk = next_chunk_ - before_;
    const int item = __shfl_sync(0xffffffff, first_item_, group_ - seen_) + chunk;
    WarpItem out = read_item(args_, item * heads + index_of(group_) % heads, args_.item_count * heads);
    out.first_of_group = chunk == 0;
    out.last_of_group = chunk + 1 == chunks;
    next_chunk_ += static_cast<int>(blockDim.x) / 32;
    return out;
  }

 private:
  // Over groups and KV heads, KV heads fastest.
  __device__ static int index_of(int group) {
    return static_cast<int>(blockIdx.x) + group * static_cast<int>(gridDim.x);
  }
  // Loads this CTA's groups first + i into lane i.
  __device__ void look_from(int first) {
    seen_ = first;
    const int of = index_of(first + static_cast<int>(threadIdx.x) % 32) / args_.view.layout.shape.heads;
    const bool there = args_.merges_chunk_groups && of < args_.chunk_group_count;
    const ChunkGroup items = there ? args_.chunk_groups[args_.first_chunk_group + of] : ChunkGroup{0, -1};
    chunks_ = items.chunks;
    first_item_ = items.first_item - args_.first_item;
  }

  const AttentionArgs& args_;
  int next_chunk_;  // of this warp, among the CTA's chunks
  int group_ = 0;   // the last chunk's, among the CTA's groups
  int before_ = 0;  // the CTA's chunks before that group
  int seen_ = 0;
  int chunks_ = 0;
  int first_item_ = 0;
};

// A warp has its first items by its number, so that all can begin at once, and pops the others from a shared counter,
// since SMs differ in their distance to memory.
class TicketSource {
 public:
  using Item = WarpItem;
  static constexpr bool kReadsItems = true;

  // The constructor and assigned() read nothing that predecessor kernels write; begin() and pop() do.
  __device__ explicit TicketSource(const AttentionArgs& args)
      : args_(args),
        own_(static_cast<int>(blockIdx.x) + static_cast<int>(threadIdx.x) / 32 * static_cast<int>(gridDim.x)) {}
  // Called equally often by each warp.
  __device__ WarpItem assigned() {
    const int warps = static_cast<int>(gridDim.x * blockDim.x) / 32;
    assigned_ += warps;
    return read_item(args_, own_ + assigned_ - warps, end());
  }
  __device__ void begin() { ticket_ = pop_ticket(); }
  __device__ WarpItem pop() {
    const WarpItem out = read_item(args_, __shfl_sync(0xffffffff, ticket_, 0), end());
    ticket_ = pop_ticket();
    return out;
  }

 private:
  __device__ int end() const { return args_.item_count * args_.view.layout.shape.heads - args_.reserved_items; }
  __device__ int pop_ticket() const {
    return threadIdx.x % 32 == 0 ? assigned_ + atomicAdd(args_.ticket_counter, 1) : 0;
  }

  const AttentionArgs& args_;
  int own_;
  int assigned_ = 0;  // items that warps have by number
  int ticket_ = 0;
};

// The same, but the last items go to CTAs that have time (AttentionArgs::reserved_items), by number.
class ReservedSource {
 public:
  __device__ explicit ReservedSource(const AttentionArgs& args) : args_(args), tickets_(args) {}
  __device__ WarpItem assigned() {
    const WarpItem out = tickets_.assigned();
    return !out.valid() && has_time() ? next_reserved() : out;
  }
  __device__ void begin() {
    if (!has_time()) tickets_.begin();
  }
  __device__ WarpItem pop() { return has_time() ? next_reserved() : tickets_.pop(); }

 private:
  __device__ bool has_time() const { return args_.reserved_items > 0 && blockIdx.x >= args_.prefix_ctas; }
  __device__ WarpItem next_reserved() {
    const int end = args_.item_count * args_.view.layout.shape.heads;
    const int ctas = static_cast<int>(gridDim.x - args_.prefix_ctas);
    const int number = static_cast<int>(blockIdx.x - args_.prefix_ctas) + static_cast<int>(threadIdx.x) / 32 * ctas;
    const int index = end - args_.reserved_items + taken_ + number;
    taken_ += ctas * static_cast<int>(blockDim.x) / 32;
    return read_item(args_, index, end);
  }

  const AttentionArgs& args_;
  TicketSource tickets_;
  int taken_ = 0;  // of the reserved items, by all these CTAs
};

// Items by number and ticket, or by chunk group if merges_chunk_groups.
template <class Tickets = TicketSource>
class GroupSource {
 public:
  using Item = WarpItem;
  static constexpr bool kReadsItems = true;

  __device__ explicit GroupSource(const AttentionArgs& args) : args_(args), tickets_(args), groups_(args) {}
  __device__ WarpItem assigned() { return args_.merges_chunk_groups ? groups_.next() : tickets_.assigned(); }
  __device__ void begin() {
    if (!args_.merges_chunk_groups) tickets_.begin();
  }
  __device__ WarpItem pop() { return args_.merges_chunk_groups ? groups_.next() : tickets_.pop(); }

 private:
  const AttentionArgs& args_;
  Tickets tickets_;
  GroupScheduler groups_;
};

// Advances the prefetch: loads the next item's blocks and, if the source reads items, the item after it.
template <class Source>
__device__ void read_ahead(Source& source, typename Source::Item& next, typename Source::Item& read) {
  if constexpr (Source::kReadsItems) {
    next = read;
    next.read_ids();
    read = source.pop();
  } else {
    next = source.pop();
    next.read_ids();
  }
}

// A warp's items, one after the other, with the current one at hand: an item is read an item before its blocks, and
// these an item before it is used. ItemQueue below is the same without a current item; deriving one from the other
// changes the machine code of cp_async.cu (its registers are allocated otherwise), so they stay two.
template <class Source>
class ItemPrefetcher {
 public:
  using Item = typename Source::Item;

  // Reads nothing that predecessor kernels write; begin() does.
  __device__ explicit ItemPrefetcher(const AttentionArgs& args) : args_(args), source_(args) {
    now_ = source_.assigned();
    now_.read_ids();
    next_ = source_.assigned();
    if constexpr (Source::kReadsItems) read_ = source_.assigned();
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
  Item now_, next_, read_;  // read_ only if the source reads items
};

// A warp's next items, for kernels that keep the current one in shared memory (scaled.cuh).
template <class Source>
class ItemQueue {
 public:
  using Item = typename Source::Item;

  // Reads nothing that predecessor kernels write; begin() does.
  __device__ explicit ItemQueue(const AttentionArgs& args) : args_(args), source_(args) {
    next_ = source_.assigned();
    if constexpr (Source::kReadsItems) read_ = source_.assigned();
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
  Item next_, read_;  // read_ only if the source reads items
};

// Copies an item's queries into shared memory by cp.async.
template <int kDim>
__device__ void copy_queries(const TileRows& rows, std::uint32_t to) {
  constexpr int kVecsOfRow = kDim / 8;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < rows.count() * kVecsOfRow; i += 32) {
    const int row = i / kVecsOfRow;
    const int vec = i % kVecsOfRow;
    copy_async(to + row_vec<kDim>(row, vec), rows.args.q + rows.state(row) * rows.args.k_stride + vec * 8, 16);
  }
}

}  // namespace kvasir::cuda
