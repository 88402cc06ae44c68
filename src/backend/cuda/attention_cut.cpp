#include "backend/cuda/attention_cut.h"

#include <algorithm>
#include <functional>

namespace kvasir::cuda {

int heads_of_tile(int heads_per_kv) {
  int heads = std::min(heads_per_kv, kTileRows);
  while (heads_per_kv % heads != 0) --heads;
  return heads;
}

AttentionTile make_tile(const SequenceView& sequence, const Retention& retention, int first_token, int tokens) {
  AttentionTile tile;
  tile.first_token = first_token;
  tile.tokens = tokens;
  const Position first = sequence.start + first_token;
  tile.end_split = static_cast<int>((first + tokens - 1) / kSplitTokens) + 1;
  tile.first_split = static_cast<int>(retention.window_begin(first) / kSplitTokens);
  if (!retention.full()) {
    tile.sink_splits =
        static_cast<int>(std::min<Position>((retention.sinks + kSplitTokens - 1) / kSplitTokens, tile.first_split));
  }
  return tile;
}

void add_spans(std::vector<SpanItems>& to, AttentionTile& tile) {
  tile.first_span = static_cast<int>(to.size());
  for (int i = 0; i < tile.splits(); ++i) {
    const bool opens = i == 0 || tile.split_at(i) / kSpanSplits != tile.split_at(i - 1) / kSpanSplits;
    if (opens) to.push_back({tile.first_item + i, 0});
    ++to.back().splits;
  }
}

void add_groups(std::vector<AttentionGroup>& to, const SequenceView& sequence, const Retention& retention,
                int heads_per_kv, const BlockId* blocks) {
  const int heads = heads_of_tile(heads_per_kv);
  const int tokens = kRowsOfGroup / heads;
  for (int first = 0; first < sequence.rows; first += tokens) {
    const AttentionTile whole = make_tile(sequence, retention, first, std::min(tokens, sequence.rows - first));
    for (int head = 0; head < heads_per_kv; head += heads) {
      AttentionGroup group;
      group.blocks = blocks;
      group.query = sequence.start + first;
      group.row = sequence.first_row + first;
      group.tokens = whole.tokens;
      group.after = sequence.rows - first;
      group.first_head = static_cast<std::int16_t>(head);
      group.sink_splits = whole.sink_splits;
      group.first_split = whole.first_split;
      group.end_split = whole.end_split;
      to.push_back(group);
    }
  }
}

namespace {

// Tiles that a group goes through: as far as its last token sees.
int tiles_of(const AttentionGroup& group) {
  const auto last = static_cast<int>((group.query + group.tokens - 1) % kSplitTokens) / kTileTokens + 1;
  return (group.splits() - 1) * (kSplitTokens / kTileTokens) + last;
}

}  // namespace

void sort_groups(std::vector<AttentionGroup>& groups) {
  std::ranges::stable_sort(groups, std::greater<>(), tiles_of);
}

}  // namespace kvasir::cuda
