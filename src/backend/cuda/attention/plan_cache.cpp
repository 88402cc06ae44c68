#include "backend/cuda/attention/plan_cache.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "backend/cuda/attention/partition.h"

namespace kvasir::cuda {
namespace {

// Sequences of so many tiles or more are prefill.
constexpr int kTilesOfPrefill = kPrefillRows / kTileRows / 2;

// Leaves the chunks that sequence `i` shares to the prefix's cohort.
void begin_behind(const PrefixPlan& prefixes, size_t i, int heads, AttentionTile& tile) {
  tile.prefix = prefixes.partials[i];
  tile.prefix.at += static_cast<std::int64_t>(tile.first_token) * heads;
  tile.first_chunk = std::max(tile.first_chunk, prefixes.prefix_chunks[i]);
}

// Long sequences first, so that little is left to run at the end.
std::vector<size_t> longest_first(std::span<const SequenceView> sequences) {
  std::vector<size_t> out(sequences.size());
  std::iota(out.begin(), out.end(), size_t{0});
  std::ranges::stable_sort(out, std::greater<>(), [&](size_t i) { return sequences[i].start + sequences[i].rows; });
  return out;
}

}  // namespace

bool has_trees(std::span<const SequenceView> sequences) {
  return std::ranges::any_of(
      sequences, [](const SequenceView& sequence) { return sequence.ancestors != nullptr && sequence.rows > 1; });
}

const AttentionPlan& PlanCache::plan(const AttentionBatch& batch) {
  const PlanKey asked = key_of(batch);
  if (!tables_.in_batch()) forget();
  for (const AttentionPlan& plan : plans_) {
    if (plan.is_for(asked)) return plan;
  }
  const auto before = std::ranges::find_if(
      last_, [&](const AttentionPlan& plan) { return plan.is_for(asked) && plan.partitions_alike(batch.sequences); });
  AttentionPlan made = before != last_.end() ? std::move(*before) : make(batch);
  send(made, batch);
  return plans_.emplace_back(std::move(made));
}

void PlanCache::forget() {
  if (plans_.empty()) return;
  std::swap(last_, plans_);
  plans_.clear();
}

bool AttentionPlan::partitions_alike(std::span<const SequenceView> now) const {
  if (!decode_only || trees || !retention.full() || !prefixes.items.empty()) return false;
  const auto begins_alike = [](const SequenceView& sequence, BlockId block) { return sequence.blocks[0] == block; };
  return std::ranges::equal(now, first_blocks, begins_alike) &&
         std::ranges::all_of(tiles, [now](const AttentionTile& tile) {
           const SequenceView& sequence = now[static_cast<size_t>(tile.sequence)];
           return sequence.rows == 1 && sequence.start / kChunkTokens + 1 == tile.end_chunk;
         });
}

PlanKey PlanCache::key_of(const AttentionBatch& batch) const {
  const int kv_heads = batch.view.layout.shape.heads;
  const int heads_per_kv = batch.heads / kv_heads;
  const bool trees = has_trees(batch.sequences);
  return {batch.sequences.data(),
          batch.sequences.size(),
          heads_per_kv,
          kv_heads,
          batch.view.retention,
          trees ? PrefillPath::kDecode : prefill_path_of(batch.view),
          !trees && shares_prefixes(batch.view, heads_per_kv),
          trees};
}

PrefillPath PlanCache::prefill_path_of(const KvView& view) const {
  if (device_.uses_tma(view)) return PrefillPath::kWgmma;
  return device_.has_tma && can_dequantize(view.layout) ? PrefillPath::kDequantWgmma : PrefillPath::kDecode;
}

const BlockId* PlanCache::blocks_of(AttentionPlan& plan, const SequenceView& sequence, const BlockId* table) {
  if (plan.prefill_path != PrefillPath::kDequantWgmma) return table;
  const std::vector<BlockId> dequantized = add_dequant_blocks(plan.dequant_blocks, sequence, plan.retention, table);
  return staging_.send(std::span<const BlockId>(dequantized));
}

bool PlanCache::shares_prefixes(const KvView& view, int heads_per_kv) const {
  const bool readable = device_.uses_tma(view) || (device_.has_tma && can_dequantize(view.layout));
  return readable && view.layout.block_tokens == kBlockOfTile && view.retention.full() &&
         view.recent_override.full() && heads_per_kv <= kCohortRows;
}

void PlanCache::add_prefixes(AttentionPlan& plan, const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const bool dequantized = plan.prefill_path == PrefillPath::kDequantWgmma;
  PrefixRules rules;
  rules.heads_per_kv = plan.heads_per_kv;
  rules.most_rows = kTileRows / heads_of_tile(plan.heads_per_kv) * kTilesOfPrefill - 1;
  rules.sm_count = device_.sm_count;
  if (dequantized) rules.cost = cost_of_dequantizing(layout);
  plan.prefixes = plan_prefixes(batch, tables_.find(batch.sequences, kBlockOfTile).tables, rules);
  if (!dequantized) return;
  dequantize_prefixes(plan);
  const std::int64_t dequant_bytes = dequant_layout(layout, layout.shape.heads).block_bytes();
  if (std::ssize(plan.dequant_prefix_blocks) * dequant_bytes <= DequantWorkspace::kMostBytes) return;
  plan.prefixes = {};
  plan.dequant_prefix_blocks.clear();
}

// Cohorts of one prefix are neighbours and share its dequantized blocks.
void PlanCache::dequantize_prefixes(AttentionPlan& plan) {
  const std::vector<int> chunks = chunks_of_cohorts(plan.prefixes);
  const BlockId* of_cache = nullptr;
  const BlockId* dequantized = nullptr;
  for (size_t i = 0; i < chunks.size(); ++i) {
    PrefixCohort& cohort = plan.prefixes.cohorts[i];
    if (cohort.blocks != of_cache) {
      of_cache = cohort.blocks;
      const SequenceView seen{nullptr, static_cast<Position>(chunks[i]) * kChunkTokens, 0, 0};
      const std::vector<BlockId> table = add_dequant_blocks(plan.dequant_prefix_blocks, seen, {}, of_cache);
      dequantized = staging_.send(std::span<const BlockId>(table));
    }
    cohort.blocks = dequantized;
  }
}

void PlanCache::add_paths(AttentionPlan& plan, const AttentionBatch& batch) {
  std::vector<TreePath> paths(static_cast<size_t>(batch.q.rows));
  for (const SequenceView& sequence : batch.sequences) {
    for (int row = 0; row < sequence.rows; ++row) {
      paths[static_cast<size_t>(sequence.first_row + row)] = sequence.path_of(row);
    }
  }
  plan.device_paths = staging_.send(std::span<const TreePath>(paths));
}

AttentionPlan PlanCache::make(const AttentionBatch& batch) {
  AttentionPlan plan(key_of(batch));
  for (const SequenceView& sequence : batch.sequences) plan.first_blocks.push_back(sequence.blocks[0]);
  if (plan.shares && batch.sequences.size() > 1) add_prefixes(plan, batch);
  if (plan.trees) add_paths(plan, batch);
  const DeviceSequences& on_device = tables_.find(batch.sequences, batch.view.layout.block_tokens);
  const int heads = heads_of_tile(plan.heads_per_kv);
  int item = 0;
  for (const size_t i : longest_first(batch.sequences)) {
    const SequenceView& sequence = batch.sequences[i];
    const int tokens = sequence.ancestors == nullptr ? kTileRows / heads : 1;  // of a tree each sees others
    plan.decode_only = plan.decode_only && sequence.rows == 1;
    if (plan.prefill_path != PrefillPath::kDecode && sequence.rows >= tokens * kTilesOfPrefill) {
      const BlockId* blocks = blocks_of(plan, sequence, on_device.tables[i]);
      add_prefill_tiles(plan.prefill_tiles, sequence, plan.retention, plan.heads_per_kv, blocks);
      continue;
    }
    for (int first = 0; first < sequence.rows; first += tokens) {
      AttentionTile tile = make_tile(sequence, plan.retention, first, std::min(tokens, sequence.rows - first));
      tile.sequence = static_cast<int>(i);
      if (!plan.prefixes.items.empty()) begin_behind(plan.prefixes, i, batch.heads, tile);
      for (tile.first_head = 0; tile.first_head < plan.heads_per_kv; tile.first_head += heads) {
        tile.first_item = item;
        item += tile.chunks();
        add_chunk_groups(plan.chunk_groups, tile);
        plan.has_many_groups = plan.has_many_groups || tile.end_chunk > kGroupChunks;
        plan.tiles.push_back(tile);
      }
    }
  }
  sort_prefill_tiles(plan.prefill_tiles);
  if (plan.retention.full() && plan.prefixes.items.empty()) {
    plan.whole_rows = whole_rows(plan.tiles, plan.kv_heads, device_.sm_count);
    plan.ctas_per_row = ctas_per_row(plan.tiles, plan.kv_heads, device_.sm_count);
  }
  return plan;
}

void PlanCache::send(AttentionPlan& plan, const AttentionBatch& batch) {
  if (!plan.prefill_tiles.empty())
    plan.device_prefill_tiles = staging_.send(std::span<const PrefillTile>(plan.prefill_tiles));
  if (!plan.dequant_blocks.empty())
    plan.device_dequant_blocks = staging_.send(std::span<const DequantBlock>(plan.dequant_blocks));
  if (!plan.prefixes.items.empty()) {
    plan.device_prefixes.cohorts = staging_.send(std::span<const PrefixCohort>(plan.prefixes.cohorts));
    plan.device_prefixes.items = staging_.send(std::span<const PrefixWorkItem>(plan.prefixes.items));
    plan.device_prefixes.prefix_item_count = static_cast<int>(plan.prefixes.items.size());
    plan.device_prefixes.rows = staging_.send(std::span<const int>(plan.prefixes.rows));
    if (!plan.dequant_prefix_blocks.empty()) {
      plan.device_dequant_prefix_blocks = staging_.send(std::span<const DequantBlock>(plan.dequant_prefix_blocks));
    }
  }
  if (plan.tiles.empty()) return;
  plan.device_tiles = staging_.send(std::span<const AttentionTile>(plan.tiles));
  const DeviceSequences& sequences = tables_.find(batch.sequences, batch.view.layout.block_tokens);
  const int items = plan.tiles.back().first_item + plan.tiles.back().chunks();
  const auto count = static_cast<size_t>(items);
  if (staging_.held() && plan.retention.full()) {  // the batch may be replayed, unless a window drops keys
    const size_t step = std::max<size_t>(4, plan.tiles.size() / 2);
    plan.padding_items = static_cast<int>((count + step - 1) / step * step - count);
    plan.chunk_groups.resize((plan.chunk_groups.size() + step - 1) / step * step);
  }
  plan.device_chunk_groups = staging_.send(std::span<const ChunkGroup>(plan.chunk_groups));
  const size_t bytes = (count + static_cast<size_t>(plan.padding_items)) * sizeof(WorkItem);
  const Staging::Region region = staging_.take(bytes);
  auto* to = reinterpret_cast<WorkItem*>(region.host);
  const size_t row_bytes = plan.needs_rows() ? plan.tiles.size() * sizeof(WorkItem) : 0;
  const Staging::Region region_of_rows = row_bytes > 0 ? staging_.take(row_bytes) : Staging::Region{};
  auto* row = reinterpret_cast<WorkItem*>(region_of_rows.host);
  for (const AttentionTile& tile : plan.tiles) {
    const SequenceView& sequence = batch.sequences[static_cast<size_t>(tile.sequence)];
    WorkItem item;
    item.blocks = sequences.tables[static_cast<size_t>(tile.sequence)];
    item.query = sequence.position_of(tile.first_token);
    item.row = sequence.first_row + tile.first_token;
    item.tokens = static_cast<std::int16_t>(tile.tokens);
    item.first_head = static_cast<std::int16_t>(tile.first_head);
    item.after = sequence.ancestors == nullptr ? sequence.rows - tile.first_token : 1;
    for (int i = 0; i < tile.chunks(); ++i) {
      item.first_key = tile.chunk_at(i);
      *to++ = item;
    }
    item.first_key = tile.chunks();
    if (row != nullptr) *row++ = item;
  }
  for (int i = 0; i < plan.padding_items; ++i) {  // they read the first key of the first item
    WorkItem item = *reinterpret_cast<const WorkItem*>(region.host);
    item.query = static_cast<Position>(item.first_key) * kChunkTokens;
    item.tokens = 1;
    item.after = 1;
    *to++ = item;
  }
  staging_.send(region, bytes);
  plan.device_items = reinterpret_cast<const WorkItem*>(region.device);
  if (row_bytes > 0) staging_.send(region_of_rows, row_bytes);
  plan.device_rows = reinterpret_cast<const WorkItem*>(region_of_rows.device);
}

}  // namespace kvasir::cuda
