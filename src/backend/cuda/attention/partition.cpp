#include "backend/cuda/attention/partition.h"

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
  const Position first = sequence.position_of(first_token);
  tile.end_chunk = static_cast<int>((first + tokens - 1) / kChunkTokens) + 1;
  tile.first_chunk = static_cast<int>(retention.window_begin(first) / kChunkTokens);
  if (!retention.full()) {
    tile.sink_chunks =
        static_cast<int>(std::min<Position>((retention.sinks + kChunkTokens - 1) / kChunkTokens, tile.first_chunk));
  }
  return tile;
}

void add_chunk_groups(std::vector<ChunkGroup>& to, AttentionTile& tile) {
  tile.first_chunk_group = static_cast<int>(to.size());
  for (int i = 0; i < tile.chunks(); ++i) {
    const bool opens = i == 0 || tile.chunk_at(i) / kGroupChunks != tile.chunk_at(i - 1) / kGroupChunks;
    if (opens) to.push_back({tile.first_item + i, 0});
    ++to.back().chunks;
  }
}

namespace {

bool begin_elsewhere(std::span<const AttentionTile> tiles) {
  return std::ranges::any_of(tiles,
                             [](const AttentionTile& tile) { return tile.sink_chunks > 0 || tile.first_chunk > 0; });
}

// Whether the busiest SM has at most 1/16 more than its share.
bool balance(std::int64_t most_of_one, std::int64_t chunks, int sm_count) {
  return most_of_one * sm_count * 16 <= chunks * 17;
}

}  // namespace

WholeRows whole_rows(std::span<const AttentionTile> tiles, int heads, int sm_count) {
  WholeRows out;
  if (tiles.empty() || begin_elsewhere(tiles)) return out;
  std::vector<std::int64_t> chunks_of(static_cast<size_t>(sm_count));
  const int whole_rounds = static_cast<int>(tiles.size()) * heads / sm_count;
  std::int64_t chunks = 0;
  int round = 0;
  int at = 0;  // the round's next SM; decode steps run this loop, so it does not divide
  for (const AttentionTile& tile : tiles) {
    for (int head = 0; head < heads; ++head) {
      const bool forth = round % 2 == 0 || round == whole_rounds;
      chunks_of[static_cast<size_t>(forth ? at : sm_count - 1 - at)] += tile.end_chunk;
      if (++at < sm_count) continue;
      at = 0;
      ++round;
    }
    chunks += static_cast<std::int64_t>(tile.end_chunk) * heads;
    out.chunk_groups += groups_of(tile.end_chunk) * heads;
  }
  out.balanced = balance(std::ranges::max(chunks_of), chunks, sm_count);
  out.least_groups = whole_rounds * groups_of(std::ranges::min(tiles, {}, &AttentionTile::end_chunk).end_chunk);
  return out;
}

int ctas_per_row(std::span<const AttentionTile> tiles, int heads, int sm_count) {
  // More than 2 do not pay: a device holds fewer clusters of 4 than pairs.
  constexpr int kCtas = 2;
  if (tiles.empty() || begin_elsewhere(tiles)) return 0;
  if (std::ssize(tiles) * heads * kCtas > sm_count) return 0;
  std::int64_t chunks = 0;
  for (const AttentionTile& tile : tiles) chunks += static_cast<std::int64_t>(tile.end_chunk) * heads;
  const int longest = std::ranges::max(tiles, {}, &AttentionTile::end_chunk).end_chunk;
  const int chunk_groups = groups_of_cta(longest, kCtas);
  const bool fit =
      chunk_groups <= kMostGroupsOfCta && balance(std::min(longest, chunk_groups * kGroupChunks), chunks, sm_count);
  return fit ? kCtas : 0;
}

bool whole_groups_fit(const GroupsAndItems& of, int heads, int sm_count) {
  const int chunk_groups = of.chunk_groups * heads;
  const int rounds = (chunk_groups + sm_count - 1) / sm_count;
  return chunk_groups * 4 >= rounds * sm_count * 3 && of.chunk_groups * (kGroupChunks / 2) <= of.items;
}

void add_prefill_tiles(std::vector<PrefillTile>& to, const SequenceView& sequence, const Retention& retention,
                       int heads_per_kv, const BlockId* blocks) {
  const int heads = heads_of_tile(heads_per_kv);
  const int tokens = kPrefillRows / heads;
  for (int first = 0; first < sequence.rows; first += tokens) {
    const AttentionTile whole = make_tile(sequence, retention, first, std::min(tokens, sequence.rows - first));
    for (int head = 0; head < heads_per_kv; head += heads) {
      PrefillTile tile;
      tile.blocks = blocks;
      tile.query = sequence.start + first;
      tile.row = sequence.first_row + first;
      tile.tokens = whole.tokens;
      tile.after = sequence.rows - first;
      tile.first_head = static_cast<std::int16_t>(head);
      tile.sink_chunks = whole.sink_chunks;
      tile.first_chunk = whole.first_chunk;
      tile.end_chunk = whole.end_chunk;
      to.push_back(tile);
    }
  }
}

namespace {

// KV tiles that a prefill tile reads: as far as its last token sees.
int kv_tiles_of(const PrefillTile& tile) {
  const auto last = static_cast<int>((tile.query + tile.tokens - 1) % kChunkTokens) / kTileTokens + 1;
  return (tile.chunks() - 1) * (kChunkTokens / kTileTokens) + last;
}

}  // namespace

void sort_prefill_tiles(std::vector<PrefillTile>& tiles) {
  std::ranges::stable_sort(tiles, std::greater<>(), kv_tiles_of);
}

}  // namespace kvasir::cuda
