#include "backend/cuda/prefix_plan.h"

#include <algorithm>

#include "backend/cuda/wide_blocks.h"
#include "backend/shared_prefixes.h"

namespace kvasir::cuda {
namespace {

int over(int count, int by) { return (count + by - 1) / by; }

// In times of one split: all pieces of `splits_of_piece`, as many at once as there are processors.
int time_of(std::span<const int> splits, int splits_of_piece, int heads, int processors) {
  int pieces = 0;
  int longest = 0;
  for (const int count : splits) {
    pieces += over(count, splits_of_piece) * heads;
    longest = std::max(longest, std::min(count, splits_of_piece));
  }
  return over(pieces, processors) * longest;
}

}  // namespace

PrefixCut cut_prefixes(std::span<const int> splits, int heads, int processors) {
  PrefixCut apart;
  int least = time_of(splits, 1, heads, processors);
  for (int of_piece = 2; of_piece <= kSpanSplits; ++of_piece) {
    const int time = time_of(splits, of_piece, heads, processors);
    if (time > least) continue;
    least = time;
    apart.splits_of_piece = of_piece;
  }
  // Sums of splits that are written and read again take about a quarter of the time that splits take.
  if (time_of(splits, kSpanSplits, heads, processors) * 4 <= least * 5) return {kSpanSplits, kSpanSplits};
  return apart;
}

namespace {

// Of a prefix's rows, from `begin` on.
void add_groups(PrefixPlan& plan, const BlockId* blocks, size_t begin, int tokens_of_group) {
  const auto end = static_cast<int>(plan.rows.size());
  for (auto first = static_cast<int>(begin); first < end; first += tokens_of_group) {
    plan.groups.push_back({blocks, first, std::min(tokens_of_group, end - first), {}});
  }
}

// A prefix's groups that are at the same place at the same time read it once.
void add_pieces(PrefixPlan& plan, std::span<const int> splits_of_group, int heads, const PrefixCut& cut) {
  const int longest = std::ranges::max(splits_of_group);
  for (int first = 0; first < longest; first += cut.splits_of_piece) {
    for (int group = 0; group < std::ssize(plan.groups); ++group) {
      const int left = splits_of_group[static_cast<size_t>(group)] - first;
      if (left <= 0) continue;
      for (int head = 0; head < heads; ++head) {
        plan.pieces.push_back({group, head, first, std::min(left, cut.splits_of_piece)});
      }
    }
  }
}

}  // namespace

int blocks_for_pieces(int pieces, int processors) { return over(pieces, over(pieces, processors)); }

int items_beside_pieces(int items, int warps, std::span<const PrefixPiece> pieces, int processors) {
  constexpr int kSplitsOfItem = 3;  // of a piece, that take as long as an item beside five others (bench/RESULTS.md)
  const auto count = static_cast<int>(pieces.size());
  const int idle = processors - blocks_for_pieces(count, processors);
  const int splits = over(count, processors) * std::ranges::max(pieces, {}, &PrefixPiece::splits).splits;
  const int rounds = over(items, processors * warps) - 1;
  const int left = items - rounds * processors * warps;
  return rounds > 0 && left <= idle * warps * (splits / kSplitsOfItem) ? left : 0;
}

std::vector<int> splits_of_groups(const PrefixPlan& plan) {
  std::vector<int> out(plan.groups.size());
  for (const PrefixPiece& piece : plan.pieces) {
    int& splits = out[static_cast<size_t>(piece.group)];
    splits = std::max(splits, piece.first_split + piece.splits);
  }
  return out;
}

int cost_of_widening(const KvLayout& layout) {
  constexpr int kWritten = 8;  // bytes that are written: as many that are read take as long (bench/RESULTS.md)
  return static_cast<int>(kWritten * wide_layout(layout, layout.shape.heads).block_bytes() / layout.layer_bytes());
}

PrefixPlan plan_prefixes(const AttentionBatch& batch, std::span<const BlockId* const> tables,
                         const PrefixRules& rules) {
  PrefixPlan plan;
  plan.begun.resize(batch.sequences.size());
  plan.begun_splits.resize(batch.sequences.size());
  std::vector<int> few;
  for (int i = 0; i < std::ssize(batch.sequences); ++i) {
    if (batch.sequences[static_cast<size_t>(i)].rows <= rules.most_rows) few.push_back(i);
  }
  constexpr int kBlocks = kSplitTokens / kBlockOfTile;
  const auto least = static_cast<int>(rules.worth_bytes / (batch.view.layout.layer_bytes() * kBlocks)) + 1;
  const std::vector<SharedPrefix> prefixes =
      find_shared_prefixes(batch.sequences, few, {kBlockOfTile, kBlocks, least, rules.cost});
  if (prefixes.empty()) return plan;
  std::vector<int> splits_of_group;
  std::vector<size_t> first_group;  // of each prefix
  for (const SharedPrefix& prefix : prefixes) {
    const size_t begin = plan.rows.size();
    first_group.push_back(plan.groups.size());
    for (const int i : prefix.sequences) {
      const SequenceView& sequence = batch.sequences[static_cast<size_t>(i)];
      for (int row = 0; row < sequence.rows; ++row) plan.rows.push_back(sequence.first_row + row);
    }
    add_groups(plan, tables[static_cast<size_t>(prefix.sequences[0])], begin, kRowsOfPrefix / rules.heads_per_kv);
    splits_of_group.resize(plan.groups.size(), prefix.pieces);
  }
  const int kv_heads = batch.view.layout.shape.heads;
  const PrefixCut cut = cut_prefixes(splits_of_group, kv_heads, rules.processors);
  add_pieces(plan, splits_of_group, kv_heads, cut);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    BegunSums sums{over(prefixes[i].pieces, cut.splits_of_sum), cut.splits_of_sum, plan.sums, 0};
    for (const int at : prefixes[i].sequences)
      sums.step += batch.sequences[static_cast<size_t>(at)].rows * batch.heads;
    plan.sums += sums.count * sums.step;
    const size_t end = i + 1 < prefixes.size() ? first_group[i + 1] : plan.groups.size();
    for (size_t group = first_group[i]; group < end; ++group) {
      plan.groups[group].sums = sums;
      plan.groups[group].sums.at +=
          static_cast<std::int64_t>(plan.groups[group].first - plan.groups[first_group[i]].first) * batch.heads;
    }
    for (const int at : prefixes[i].sequences) {
      plan.begun[static_cast<size_t>(at)] = sums;
      plan.begun_splits[static_cast<size_t>(at)] = prefixes[i].pieces;
      sums.at += static_cast<std::int64_t>(batch.sequences[static_cast<size_t>(at)].rows) * batch.heads;
    }
  }
  return plan;
}

}  // namespace kvasir::cuda
