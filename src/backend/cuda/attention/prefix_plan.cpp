#include "backend/cuda/attention/prefix_plan.h"

#include <algorithm>

#include "backend/cuda/attention/prefill/dequant_kv.h"
#include "backend/shared_prefixes.h"

namespace kvasir::cuda {
namespace {

int over(int count, int by) { return (count + by - 1) / by; }

// Time in units of one chunk: items of `chunks_of_item` chunks, one an SM at a time.
int time_of(std::span<const int> chunks, int chunks_of_item, int heads, int sm_count) {
  int items = 0;
  int longest = 0;
  for (const int count : chunks) {
    items += over(count, chunks_of_item) * heads;
    longest = std::max(longest, std::min(count, chunks_of_item));
  }
  return over(items, sm_count) * longest;
}

}  // namespace

PrefixPartition partition_prefixes(std::span<const int> chunks, int heads, int sm_count) {
  PrefixPartition apart;
  int least = time_of(chunks, 1, heads, sm_count);
  for (int of_item = 2; of_item <= kGroupChunks; ++of_item) {
    const int time = time_of(chunks, of_item, heads, sm_count);
    if (time > least) continue;
    least = time;
    apart.chunks_of_item = of_item;
  }
  // Writing and reading a chunk's partials takes about a quarter of its time.
  if (time_of(chunks, kGroupChunks, heads, sm_count) * 4 <= least * 5) return {kGroupChunks, kGroupChunks};
  return apart;
}

namespace {

// Divides a prefix's rows, from `begin` on, into cohorts.
void add_cohorts(PrefixPlan& plan, const BlockId* blocks, size_t begin, int tokens_of_cohort) {
  const auto end = static_cast<int>(plan.rows.size());
  for (auto first = static_cast<int>(begin); first < end; first += tokens_of_cohort) {
    plan.cohorts.push_back({blocks, first, std::min(tokens_of_cohort, end - first), {}});
  }
}

// Items of the same chunks are neighbours, so that cohorts of one prefix find them in L2.
void add_prefix_items(PrefixPlan& plan, std::span<const int> chunks_of_cohort, int heads,
                      const PrefixPartition& cut) {
  const int longest = std::ranges::max(chunks_of_cohort);
  for (int first = 0; first < longest; first += cut.chunks_of_item) {
    for (int cohort = 0; cohort < std::ssize(plan.cohorts); ++cohort) {
      const int left = chunks_of_cohort[static_cast<size_t>(cohort)] - first;
      if (left <= 0) continue;
      for (int head = 0; head < heads; ++head) {
        plan.items.push_back({cohort, head, first, std::min(left, cut.chunks_of_item)});
      }
    }
  }
}

}  // namespace

int ctas_for_prefix_items(int items, int sm_count) { return over(items, over(items, sm_count)); }

int items_beside_prefixes(int items, int warps, std::span<const PrefixWorkItem> prefix_items, int sm_count) {
  // chunks of a prefix item that take as long as an item beside five others (bench/notes/shared-prefix.md)
  constexpr int kChunksOfItem = 3;
  const auto count = static_cast<int>(prefix_items.size());
  const int idle = sm_count - ctas_for_prefix_items(count, sm_count);
  const int chunks = over(count, sm_count) * std::ranges::max(prefix_items, {}, &PrefixWorkItem::chunks).chunks;
  const int rounds = over(items, sm_count * warps) - 1;
  const int left = items - rounds * sm_count * warps;
  return rounds > 0 && left <= idle * warps * (chunks / kChunksOfItem) ? left : 0;
}

std::vector<int> chunks_of_cohorts(const PrefixPlan& plan) {
  std::vector<int> out(plan.cohorts.size());
  for (const PrefixWorkItem& item : plan.items) {
    int& chunks = out[static_cast<size_t>(item.cohort)];
    chunks = std::max(chunks, item.first_chunk + item.chunks);
  }
  return out;
}

int cost_of_dequantizing(const KvLayout& layout) {
  constexpr int kWritten = 8;  // reading so many bytes takes as long as writing one (bench/notes/shared-prefix.md)
  return static_cast<int>(kWritten * dequant_layout(layout, layout.shape.heads).block_bytes() / layout.layer_bytes());
}

PrefixPlan plan_prefixes(const AttentionBatch& batch, std::span<const BlockId* const> tables,
                         const PrefixRules& rules) {
  PrefixPlan plan;
  plan.partials.resize(batch.sequences.size());
  plan.prefix_chunks.resize(batch.sequences.size());
  std::vector<int> few;
  for (int i = 0; i < std::ssize(batch.sequences); ++i) {
    if (batch.sequences[static_cast<size_t>(i)].rows <= rules.most_rows) few.push_back(i);
  }
  constexpr int kBlocks = kChunkTokens / kBlockOfTile;
  const auto least = static_cast<int>(rules.worth_bytes / (batch.view.layout.layer_bytes() * kBlocks)) + 1;
  const std::vector<SharedPrefix> prefixes =
      find_shared_prefixes(batch.sequences, few, {kBlockOfTile, kBlocks, least, rules.cost});
  if (prefixes.empty()) return plan;
  std::vector<int> chunks_of_cohort;
  std::vector<size_t> first_cohort;  // of each prefix
  for (const SharedPrefix& prefix : prefixes) {
    const size_t begin = plan.rows.size();
    first_cohort.push_back(plan.cohorts.size());
    for (const int i : prefix.sequences) {
      const SequenceView& sequence = batch.sequences[static_cast<size_t>(i)];
      for (int row = 0; row < sequence.rows; ++row) plan.rows.push_back(sequence.first_row + row);
    }
    add_cohorts(plan, tables[static_cast<size_t>(prefix.sequences[0])], begin, kCohortRows / rules.heads_per_kv);
    chunks_of_cohort.resize(plan.cohorts.size(), prefix.pieces);
  }
  const int kv_heads = batch.view.layout.shape.heads;
  const PrefixPartition cut = partition_prefixes(chunks_of_cohort, kv_heads, rules.sm_count);
  add_prefix_items(plan, chunks_of_cohort, kv_heads, cut);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    PrefixPartials sums{over(prefixes[i].pieces, cut.chunks_of_partial), cut.chunks_of_partial, plan.sums, 0};
    for (const int at : prefixes[i].sequences)
      sums.step += batch.sequences[static_cast<size_t>(at)].rows * batch.heads;
    plan.sums += sums.count * sums.step;
    const size_t end = i + 1 < prefixes.size() ? first_cohort[i + 1] : plan.cohorts.size();
    for (size_t cohort = first_cohort[i]; cohort < end; ++cohort) {
      plan.cohorts[cohort].sums = sums;
      plan.cohorts[cohort].sums.at +=
          static_cast<std::int64_t>(plan.cohorts[cohort].first - plan.cohorts[first_cohort[i]].first) * batch.heads;
    }
    for (const int at : prefixes[i].sequences) {
      plan.partials[static_cast<size_t>(at)] = sums;
      plan.prefix_chunks[static_cast<size_t>(at)] = prefixes[i].pieces;
      sums.at += static_cast<std::int64_t>(batch.sequences[static_cast<size_t>(at)].rows) * batch.heads;
    }
  }
  return plan;
}

}  // namespace kvasir::cuda
