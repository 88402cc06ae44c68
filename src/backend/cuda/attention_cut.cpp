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

namespace {

bool begin_elsewhere(std::span<const AttentionTile> tiles) {
  return std::ranges::any_of(tiles,
                             [](const AttentionTile& tile) { return tile.sink_splits > 0 || tile.first_split > 0; });
}

// Whether so many splits take no processor much longer than `splits` of them all would.
bool balance(std::int64_t most_of_one, std::int64_t splits, int processors) {
  return most_of_one * processors * 16 <= splits * 17;
}

}  // namespace

WholeRows whole_rows(std::span<const AttentionTile> tiles, int heads, int processors) {
  WholeRows out;
  if (tiles.empty() || begin_elsewhere(tiles)) return out;
  std::vector<std::int64_t> splits_of(static_cast<size_t>(processors));
  const int whole_rounds = static_cast<int>(tiles.size()) * heads / processors;
  std::int64_t splits = 0;
  int round = 0;
  int at = 0;  // of the round's rows; every step comes by here, so nothing is divided
  for (const AttentionTile& tile : tiles) {
    for (int head = 0; head < heads; ++head) {
      const bool forth = round % 2 == 0 || round == whole_rounds;
      splits_of[static_cast<size_t>(forth ? at : processors - 1 - at)] += tile.end_split;
      if (++at < processors) continue;
      at = 0;
      ++round;
    }
    splits += static_cast<std::int64_t>(tile.end_split) * heads;
    out.spans += spans_of(tile.end_split) * heads;
  }
  out.balanced = balance(std::ranges::max(splits_of), splits, processors);
  out.sure_spans = whole_rounds * spans_of(std::ranges::min(tiles, {}, &AttentionTile::end_split).end_split);
  return out;
}

int parts_of_rows(std::span<const AttentionTile> tiles, int heads, int processors) {
  // A device has no room for as many clusters of four as it has for pairs.
  constexpr int kBlocks = 2;
  if (tiles.empty() || begin_elsewhere(tiles)) return 0;
  if (std::ssize(tiles) * heads * kBlocks > processors) return 0;
  std::int64_t splits = 0;
  for (const AttentionTile& tile : tiles) splits += static_cast<std::int64_t>(tile.end_split) * heads;
  const int longest = std::ranges::max(tiles, {}, &AttentionTile::end_split).end_split;
  const int spans = spans_of_part(longest, kBlocks);
  const bool fit = spans <= kMostSpansOfPart && balance(std::min(longest, spans * kSpanSplits), splits, processors);
  return fit ? kBlocks : 0;
}

bool whole_spans_suit(const SpansAndItems& of, int heads, int processors) {
  const int spans = of.spans * heads;
  const int rounds = (spans + processors - 1) / processors;
  return spans * 4 >= rounds * processors * 3 && of.spans * (kSpanSplits / 2) <= of.items;
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
