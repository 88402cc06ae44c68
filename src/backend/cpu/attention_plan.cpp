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

// The last keys that the first and the last of a tile's tokens may see.
struct LastKeys {
  Position oldest, newest;
};
LastKeys last_keys(const AttentionBatch& batch, const QueryTile& tile) {
  const SequenceView& sequence = sequence_of(batch, tile);
  return {batch.last_key(sequence, tile.first_token), batch.last_key(sequence, tile.first_token + tile.tokens - 1)};
}

// Whether all tokens of the split are in the sequence's blocks as they are in everybody's: before its rows.
bool lies_behind(const AttentionBatch& batch, const QueryTile& tile, std::int64_t split) {
  const SequenceView& sequence = sequence_of(batch, tile);
  const Position from = sequence.ancestors != nullptr ? sequence.start : last_keys(batch, tile).oldest;
  return from >= (split + 1) * kSplitTokens;
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
    const auto [oldest, newest] = last_keys(batch, tile);
    first = std::min(first, retention.window_begin(oldest) / kSplitTokens);
    end = std::max(end, newest / kSplitTokens + 1);
  }
  const std::int64_t sinks = retention.full() ? 0 : (retention.sinks + kSplitTokens - 1) / kSplitTokens;
  splits_.clear();
  for (std::int64_t split = 0; split < std::min({sinks, first, end}); ++split) splits_.push_back(split);
  for (std::int64_t split = first; split < end; ++split) splits_.push_back(split);
}

void AttentionPlan::cut_tiles(const AttentionBatch& batch) {
  tiles_.clear();
  for (int s = 0; s < static_cast<int>(batch.sequences.size()); ++s) {
    const SequenceView& sequence = batch.sequences[static_cast<size_t>(s)];
    CHECK(sequence.ancestors == nullptr || sequence.rows <= kMostTreeRows);
    each_tile(batch, s, 0, [this](const QueryTile& tile) { tiles_.push_back(tile); });
  }
}

bool AttentionPlan::sees(const AttentionBatch& batch, const QueryTile& tile, std::int64_t split) {
  const Position begin = split * kSplitTokens;
  const auto [oldest, newest] = last_keys(batch, tile);
  const Position last =
      newest - batch.view.recent_override.window;  // that the tile reads: a finer group has what follows
  return begin <= last && batch.view.retention.needed(begin, begin + kSplitTokens - 1, oldest);
}

// Tiles that lie wholly behind the split, and are small enough for two to be one unit, may share it.
void AttentionPlan::add_split(const AttentionBatch& batch, int index) {
  const std::int64_t split = splits_[static_cast<size_t>(index)];
  const bool whole_blocks = kSplitTokens % batch.view.layout.block_tokens == 0;
  candidates_.clear();
  for (int t = 0; t < static_cast<int>(tiles_.size()); ++t) {
    const QueryTile& tile = tiles_[static_cast<size_t>(t)];
    if (!sees(batch, tile, split)) continue;
    if (whole_blocks && lies_behind(batch, tile, split) && 2 * tile.rows() <= kMaxQueryRows) {
      candidates_.push_back(t);
    } else {
      add_group(index, {&t, 1});
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
    add_group(index, std::span(candidates_).subspan(i, end - i));
    i = end;
  }
}

void AttentionPlan::add_group(int split, std::span<const int> tiles) {
  int rows = kMaxQueryRows + 1;  // the first tile begins a unit
  for (const int tile : tiles) {
    const int tile_rows = tiles_[static_cast<size_t>(tile)].rows();
    if (rows + tile_rows > kMaxQueryRows) {
      units_.push_back({split, static_cast<int>(order_.size()), 0});
      rows = 0;
    }
    rows += tile_rows;
    order_.push_back(tile);
    ++units_.back().count;
  }
  if (tiles.size() > 1) std::ranges::for_each(tiles, [this](int tile) { spread_tile(tile); });
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
