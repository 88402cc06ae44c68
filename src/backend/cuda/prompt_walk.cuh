// How thread blocks go through prompts: each takes groups of rows, for one KV head at a time, and each group looks at
// its tiles of keys in their order. All warps of a thread block walk alike, each with what it does there.
#pragma once

#include <climits>

#include "backend/cuda/attention_args.h"

namespace kvasir::cuda {

inline constexpr int kTilesOfSplit = kSplitTokens / kTileTokens;

// The tiles of a group: all of its splits', as far as its last row sees. All splits but the last have kTilesOfSplit.
struct GroupWalk {
  const AttentionGroup* group = nullptr;  // read again where it is needed: registers are scarce
  int kv_head = 0;
  int tiles = 0;
  // Every row sees every key of these tiles; of those of sinks too, perhaps.
  int seen_begin = 0;
  int seen_end = 0;

  GroupWalk() = default;
  __device__ GroupWalk(const AttentionGroup* of, int head, const KvView& view) : group(of), kv_head(head) {
    tiles = group->splits() * kTilesOfSplit;
    tiles = beginning_by(last_query());
    if (!view.retention.full()) seen_begin = beginning_by(last_query() - view.retention.window);
    if (view.finer.full()) seen_end = beginning_by(group->query - kTileTokens + 1);
  }

  __device__ Position last_query() const { return group->query + group->tokens - 1; }
  __device__ Position first_key(int tile) const {
    return static_cast<Position>(group->split_at(tile / kTilesOfSplit)) * kSplitTokens +
           tile % kTilesOfSplit * kTileTokens;
  }
  __device__ int span(int tile) const { return group->split_at(tile / kTilesOfSplit) / kSpanSplits; }
  // Whether the tile is the first of another span than the one before it, and whether any has ended before it.
  __device__ bool begins_span(int tile) const { return span(tile) != span(tile - 1); }
  __device__ bool spans_ended(int tile) const { return span(tile) != span(0); }
  __device__ bool sees_all(int tile) const { return tile >= seen_begin && tile < seen_end; }
  // The block of 16 keys that begins at `key`; kNoBlock: there is none.
  __device__ BlockId block(Position key) const {
    return key < group->query + group->after ? group->blocks[key / kBlockOfTile] : kNoBlock;
  }

 private:
  // Tiles whose first key is `key` or one before it.
  __device__ int beginning_by(Position key) const {
    const int of_sinks = group->sink_splits * kTilesOfSplit;
    return tiles_by(key, of_sinks) +
           tiles_by(key - static_cast<Position>(group->first_split) * kSplitTokens, tiles - of_sinks);
  }
  static __device__ int tiles_by(Position key, int most) {
    return key < 0 ? 0 : static_cast<int>(min(key / kTileTokens + 1, static_cast<Position>(most)));
  }
};

// The groups of a thread block. They are sorted, those that look at the most first: thread blocks take them in turn,
// there and back, so that all have about the same to do.
class Groups {
 public:
  __device__ explicit Groups(const AttentionArgs& args)
      : args_(args), count_(args.group_count * args.view.layout.shape.heads) {}

  __device__ bool next(GroupWalk& walk) {
    const int blocks = static_cast<int>(gridDim.x);
    const int place = static_cast<int>(blockIdx.x);
    const int index = round_ * blocks + (round_ % 2 == 0 ? place : blocks - 1 - place);
    ++round_;
    if (index >= count_) return false;  // those of a last round that is not whole have none
    const int heads = args_.view.layout.shape.heads;
    walk = GroupWalk(args_.groups + index / heads, index % heads, args_.view);
    return true;
  }

 private:
  const AttentionArgs& args_;
  int count_;
  int round_ = 0;
};

// What a row sees of a tile, its keys counted from the tile's first: [low, last] and [.., sinks), less what the finer
// group has.
struct Sight {
  int last, low, sinks, finer_low, finer_sinks;

  __device__ Sight(const KvView& view, Position query, Position first) {
    last = clamped(query - first);
    low = view.retention.full() ? INT_MIN : clamped(query - view.retention.window + 1 - first);
    sinks = view.retention.full() ? INT_MIN : clamped(view.retention.sinks - first);
    finer_low = view.finer.full() ? INT_MAX : clamped(query - view.finer.window + 1 - first);
    finer_sinks = view.finer.full() ? INT_MIN : clamped(view.finer.sinks - first);
  }
  __device__ bool of(int key) const {
    return key <= last && (key >= low || key < sinks) && key < finer_low && key >= finer_sinks;
  }

 private:
  static __device__ int clamped(Position at) {
    constexpr Position kFar = kTileTokens;
    return static_cast<int>(at < -kFar ? -kFar : at > kFar ? kFar : at);
  }
};

}  // namespace kvasir::cuda
