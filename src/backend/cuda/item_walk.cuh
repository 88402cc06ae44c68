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

// Without its blocks; none behind the last.
__device__ inline WalkItem read_item(const AttentionArgs& args, int index) {
  WalkItem out;
  const int heads = args.view.layout.shape.heads;
  if (index >= args.item_count * heads) return out;
  out.item = args.items[index / heads];
  out.index = index;
  return out;
}

// The items that a warp takes, one after the other: its first ones by its number, so that all can begin at once, then
// from those that are left, since processors are not equally near to all of the memory. What an item needs is read in
// three steps, each an item ahead of the next.
class ItemWalk {
 public:
  // Needs nothing of the kernels before this one; begin() does.
  __device__ explicit ItemWalk(const AttentionArgs& args) : args_(args) {
    const int warps = static_cast<int>(gridDim.x * blockDim.x) / 32;
    const int own = static_cast<int>(blockIdx.x) + static_cast<int>(threadIdx.x) / 32 * static_cast<int>(gridDim.x);
    given_ = 3 * warps;
    now_ = read_item(args_, own);
    next_ = read_item(args_, own + warps);
    read_ = read_item(args_, own + 2 * warps);
    now_.read_ids();
    next_.read_ids();
  }
  __device__ void begin(int* taken) {
    taken_ = taken;
    ticket_ = take();
  }

  __device__ const WalkItem& at() const { return now_; }
  __device__ int kv_head() const { return now_.index % args_.view.layout.shape.heads; }

  __device__ void advance() {
    now_ = next_;
    next_ = read_;
    next_.read_ids();
    read_ = read_item(args_, __shfl_sync(0xffffffff, ticket_, 0));
    ticket_ = take();
  }

 private:
  __device__ int take() const {
    int out = 0;
    if (threadIdx.x % 32 == 0) out = given_ + atomicAdd(taken_, 1);
    return out;
  }

  const AttentionArgs& args_;
  int* taken_ = nullptr;
  int given_ = 0;  // items that warps have by their numbers
  WalkItem now_, next_, read_;
  int ticket_ = 0;
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
