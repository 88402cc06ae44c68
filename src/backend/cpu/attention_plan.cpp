#include "backend/cpu/attention_plan.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/check.h"

namespace kvasir::cpu {
namespace {

const SequenceView& sequence_of(const AttentionBatch& batch, const QueryTile& tile) {
  return batch.sequences[static_cast<size_t>(tile.sequence)];
}

// The blocks that hold a split of a sequence, where block boundaries are boundaries of splits.
std::span<const BlockId> blocks_of(const AttentionBatch& batch, const QueryTile& tile, std::int64_t split) {
  const int block_tokens = batch.view.layout.block_tokens;
  const auto first = static_cast<size_t>(split * kSplitTokens / block_tokens);
  return {sequence_of(batch, tile).blocks + first, static_cast<size_t>(kSplitTokens / block_tokens)};
}

}  // namespace

void AttentionPlan::build(const AttentionBatch& batch) {
  cut_tiles(batch);
  units_.clear();
  order_.clear();
  spread_.clear();
  places_.assign(tiles_.size(), -1);
  choose_splits(batch);
  for (int i = 0; i < static_cast<int>(splits_.size()); ++i) add_split(batch, i);
}

// Those of the sinks, and from the first that a window reaches to the last.
void AttentionPlan::choose_splits(const AttentionBatch& batch) {
  const Retention& retention = batch.view.retention;
  std::int64_t end = 0;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const QueryTile& tile : tiles_) {
    const Position oldest = sequence_of(batch, tile).start + tile.first_token;
    first = std::min(first, retention.window_begin(oldest) / kSplitTokens);
    end = std::max(end, (oldest + tile.tokens - 1) / kSplitTokens + 1);
  }
  const std::int64_t sinks = retention.full() ? 0 : (retention.sinks + kSplitTokens - 1) / kSplitTokens;
  splits_.clear();
  for (std::int64_t split = 0; split < std::min({sinks, first, end}); ++split) splits_.push_back(split);
  for (std::int64_t split = first; split < end; ++split) splits_.push_back(split);
}

void AttentionPlan::cut_tiles(const AttentionBatch& batch) {
  tiles_.clear();
  const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  CHECK(heads_per_kv <= kMaxQueryRows);
  const int tile_tokens = kMaxQueryRows / heads_per_kv;
  for (int s = 0; s < static_cast<int>(batch.sequences.size()); ++s) {
    const int rows = batch.sequences[static_cast<size_t>(s)].rows;
    for (int first = 0; first < rows; first += tile_tokens) {
      tiles_.push_back({s, first, std::min(tile_tokens, rows - first)});
    }
  }
}

bool AttentionPlan::sees(const AttentionBatch& batch, const QueryTile& tile, std::int64_t split) {
  const Position begin = split * kSplitTokens;
  const Position oldest = sequence_of(batch, tile).start + tile.first_token;
  const Retention& finer = batch.view.finer;
  const Position last =
      oldest + tile.tokens - 1 - finer.window;  // that the tile reads: a finer group has what follows
  return begin <= last && batch.view.retention.needed(begin, begin + kSplitTokens - 1, oldest);
}

// Tiles that lie wholly behind the split, and are small enough for two to be one unit, may share it.
void AttentionPlan::add_split(const AttentionBatch& batch, int index) {
  const std::int64_t split = splits_[static_cast<size_t>(index)];
  const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  const bool whole_blocks = kSplitTokens % batch.view.layout.block_tokens == 0;
  candidates_.clear();
  for (int t = 0; t < static_cast<int>(tiles_.size()); ++t) {
    const QueryTile& tile = tiles_[static_cast<size_t>(t)];
    if (!sees(batch, tile, split)) continue;
    const bool behind = sequence_of(batch, tile).start + tile.first_token >= (split + 1) * kSplitTokens;
    if (whole_blocks && behind && 2 * tile.tokens * heads_per_kv <= kMaxQueryRows) {
      candidates_.push_back(t);
    } else {
      add_group(index, &t, 1, heads_per_kv);
    }
  }
  const auto blocks = [&](int t) { return blocks_of(batch, tiles_[static_cast<size_t>(t)], split); };
  std::ranges::sort(candidates_, [&](int a, int b) {
    const auto order = std::lexicographical_compare_three_way(blocks(a).begin(), blocks(a).end(), blocks(b).begin(),
                                                              blocks(b).end());
    return order != 0 ? order < 0 : a < b;
  });
  for (size_t i = 0; i < candidates_.size();) {
    size_t end = i + 1;
    while (end < candidates_.size() && std::ranges::equal(blocks(candidates_[end]), blocks(candidates_[i]))) ++end;
    add_group(index, candidates_.data() + i, static_cast<int>(end - i), heads_per_kv);
    i = end;
  }
}

void AttentionPlan::add_group(int split, const int* tiles, int count, int rows_per_token) {
  int rows = kMaxQueryRows + 1;  // the first tile begins a unit
  for (int i = 0; i < count; ++i) {
    const int tile_rows = tiles_[static_cast<size_t>(tiles[i])].tokens * rows_per_token;
    if (rows + tile_rows > kMaxQueryRows) {
      units_.push_back({split, static_cast<int>(order_.size()), 0});
      rows = 0;
    }
    rows += tile_rows;
    order_.push_back(tiles[i]);
    ++units_.back().count;
  }
  if (count > 1) std::for_each(tiles, tiles + count, [this](int tile) { spread_tile(tile); });
}

void AttentionPlan::spread_tile(int tile) {
  if (spread(tile)) return;
  places_[static_cast<size_t>(tile)] = static_cast<int>(spread_.size());
  spread_.push_back(tile);
}

void AttentionPlan::spread_all() {
  for (int tile = 0; tile < static_cast<int>(tiles_.size()); ++tile) spread_tile(tile);
}

}  // namespace kvasir::cpu
