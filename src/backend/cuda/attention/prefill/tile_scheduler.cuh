// The tile scheduler of wgmma.cu: CTAs take q tiles, for one KV head at a time, and process their KV tiles in order.
// Producers and consumers of a CTA run the same schedule.
#pragma once

#include <climits>

#include "backend/cuda/attention/attention_args.h"

namespace kvasir::cuda {

inline constexpr int kTilesOfChunk = kChunkTokens / kTileTokens;

// A q tile and its KV tiles: those of all its chunks, as far as its last row sees. All chunks but the last have
// kTilesOfChunk.
struct WorkTile {
  const PrefillTile* q_tile = nullptr;  // read again at each use, since registers are scarce
  int kv_head = 0;
  int tiles = 0;
  // Every row sees every key of the tiles [seen_begin, seen_end).
  int seen_begin = 0;
  int seen_end = 0;

  WorkTile() = default;
  __device__ WorkTile(const PrefillTile* of, int head, const KvView& view) : q_tile(of), kv_head(head) {
    tiles = q_tile->chunks() * kTilesOfChunk;
    tiles = beginning_by(last_query());
    if (!view.retention.full()) seen_begin = beginning_by(last_query() - view.retention.window);
    if (view.recent_override.full()) seen_end = beginning_by(q_tile->query - kTileTokens + 1);
  }

  __device__ Position last_query() const { return q_tile->query + q_tile->tokens - 1; }
  __device__ Position first_key(int tile) const {
    return static_cast<Position>(q_tile->chunk_at(tile / kTilesOfChunk)) * kChunkTokens +
           tile % kTilesOfChunk * kTileTokens;
  }
  __device__ int group(int tile) const { return q_tile->chunk_at(tile / kTilesOfChunk) / kGroupChunks; }
  // Whether the tile begins another chunk group; whether a group has ended before it.
  __device__ bool begins_group(int tile) const { return group(tile) != group(tile - 1); }
  __device__ bool groups_ended(int tile) const { return group(tile) != group(0); }
  __device__ bool sees_all(int tile) const { return tile >= seen_begin && tile < seen_end; }
  // The block of 16 keys at `key`; kNoBlock: there is none.
  __device__ BlockId block(Position key) const {
    return key < q_tile->query + q_tile->after ? q_tile->blocks[key / kBlockOfTile] : kNoBlock;
  }

 private:
  // The number of tiles whose first key is at most `key`.
  __device__ int beginning_by(Position key) const {
    const int of_sinks = q_tile->sink_chunks * kTilesOfChunk;
    return tiles_by(key, of_sinks) +
           tiles_by(key - static_cast<Position>(q_tile->first_chunk) * kChunkTokens, tiles - of_sinks);
  }
  static __device__ int tiles_by(Position key, int most) {
    return key < 0 ? 0 : static_cast<int>(min(key / kTileTokens + 1, static_cast<Position>(most)));
  }
};

// A CTA's q tiles. They are sorted by work, longest first, and dealt to CTAs to and fro, so that all have about the
// same work.
class TileScheduler {
 public:
  __device__ explicit TileScheduler(const AttentionArgs& args)
      : args_(args), count_(args.prefill_tile_count * args.view.layout.shape.heads) {}

  __device__ bool next(WorkTile& work) {
    const int ctas = static_cast<int>(gridDim.x);
    const int cta = static_cast<int>(blockIdx.x);
    const int index = round_ * ctas + (round_ % 2 == 0 ? cta : ctas - 1 - cta);
    ++round_;
    if (index >= count_) return false;  // the last round is incomplete
    const int heads = args_.view.layout.shape.heads;
    work = WorkTile(args_.prefill_tiles + index / heads, index % heads, args_.view);
    return true;
  }

 private:
  const AttentionArgs& args_;
  int count_;
  int round_ = 0;
};

// The keys of a tile that a row sees, relative to the tile's first: [low, last] and [.., sinks), without those that
// the finer group has.
struct KeyMask {
  int last, low, sinks, finer_low, finer_sinks;

  __device__ KeyMask(const KvView& view, Position query, Position first) {
    last = clamped(query - first);
    low = view.retention.full() ? INT_MIN : clamped(query - view.retention.window + 1 - first);
    sinks = view.retention.full() ? INT_MIN : clamped(view.retention.sinks - first);
    finer_low = view.recent_override.full() ? INT_MAX : clamped(query - view.recent_override.window + 1 - first);
    finer_sinks = view.recent_override.full() ? INT_MIN : clamped(view.recent_override.sinks - first);
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
