#include "backend/cuda/attention_plans.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "backend/cuda/attention_cut.h"

namespace kvasir::cuda {
namespace {

// From so many tiles on a sequence's rows are a prompt's.
constexpr int kTilesOfPrompt = kRowsOfGroup / kTileRows / 2;

// What sequence `i` shares with others is not the tile's.
void begin_behind(const PrefixPlan& prefixes, size_t i, int heads, AttentionTile& tile) {
  tile.begun = prefixes.begun[i];
  tile.begun.at += static_cast<std::int64_t>(tile.first_token) * heads;
  tile.first_split = std::max(tile.first_split, prefixes.begun_splits[i]);
}

// So that what is left at the end is short.
std::vector<size_t> longest_first(std::span<const SequenceView> sequences) {
  std::vector<size_t> out(sequences.size());
  std::iota(out.begin(), out.end(), size_t{0});
  std::ranges::stable_sort(out, std::greater<>(), [&](size_t i) { return sequences[i].start + sequences[i].rows; });
  return out;
}

}  // namespace

const AttentionPlan& AttentionPlans::plan(const AttentionBatch& batch) {
  const PlannedFor asked = planned_for(batch);
  if (!tables_.in_batch()) forget();
  for (const AttentionPlan& plan : plans_) {
    if (plan.is_for(asked)) return plan;
  }
  const auto before = std::ranges::find_if(
      last_, [&](const AttentionPlan& plan) { return plan.is_for(asked) && plan.cuts_alike(batch.sequences); });
  AttentionPlan made = before != last_.end() ? std::move(*before) : make(batch);
  send(made, batch);
  return plans_.emplace_back(std::move(made));
}

void AttentionPlans::forget() {
  if (plans_.empty()) return;
  std::swap(last_, plans_);
  plans_.clear();
}

bool AttentionPlan::cuts_alike(std::span<const SequenceView> now) const {
  if (!of_single_tokens || !retention.full() || !prefixes.pieces.empty()) return false;
  const auto begins_alike = [](const SequenceView& sequence, BlockId block) { return sequence.blocks[0] == block; };
  return std::ranges::equal(now, first_blocks, begins_alike) &&
         std::ranges::all_of(tiles, [now](const AttentionTile& tile) {
           const SequenceView& sequence = now[static_cast<size_t>(tile.sequence)];
           return sequence.rows == 1 && sequence.start / kSplitTokens + 1 == tile.end_split;
         });
}

PlannedFor AttentionPlans::planned_for(const AttentionBatch& batch) const {
  const int kv_heads = batch.view.layout.shape.heads;
  const int heads_per_kv = batch.heads / kv_heads;
  return {batch.sequences.data(),
          batch.sequences.size(),
          heads_per_kv,
          kv_heads,
          batch.view.retention,
          prompts_of(batch.view),
          shares_prefixes(batch.view, heads_per_kv)};
}

Prompts AttentionPlans::prompts_of(const KvView& view) const {
  if (device_.reads_boxes(view)) return Prompts::kInGroups;
  return device_.has_copy_engine && can_widen(view.layout) ? Prompts::kWidened : Prompts::kInTiles;
}

const BlockId* AttentionPlans::blocks_of(AttentionPlan& plan, const SequenceView& sequence, const BlockId* table) {
  if (plan.prompts != Prompts::kWidened) return table;
  const std::vector<BlockId> wide = add_wide_blocks(plan.wide, sequence, plan.retention, table);
  return staging_.send(std::span<const BlockId>(wide));
}

bool AttentionPlans::shares_prefixes(const KvView& view, int heads_per_kv) const {
  const bool readable = device_.reads_boxes(view) || (device_.has_copy_engine && can_widen(view.layout));
  return readable && view.layout.block_tokens == kBlockOfTile && view.retention.full() && view.finer.full() &&
         heads_per_kv <= kRowsOfPrefix;
}

void AttentionPlans::add_prefixes(AttentionPlan& plan, const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const bool widened = plan.prompts == Prompts::kWidened;
  PrefixRules rules;
  rules.heads_per_kv = plan.heads_per_kv;
  rules.most_rows = kTileRows / heads_of_tile(plan.heads_per_kv) * kTilesOfPrompt - 1;
  rules.processors = device_.processors;
  if (widened) rules.cost = cost_of_widening(layout);
  plan.prefixes = plan_prefixes(batch, tables_.find(batch.sequences, kBlockOfTile).tables, rules);
  if (!widened) return;
  widen_prefixes(plan);
  const std::int64_t wide_bytes = wide_layout(layout, layout.shape.heads).block_bytes();
  if (std::ssize(plan.wide_prefixes) * wide_bytes <= WideRoom::kMostBytes) return;
  plan.prefixes = {};
  plan.wide_prefixes.clear();
}

// Groups of one prefix lie side by side.
void AttentionPlans::widen_prefixes(AttentionPlan& plan) {
  const std::vector<int> splits = splits_of_groups(plan.prefixes);
  const BlockId* of_cache = nullptr;
  const BlockId* wide = nullptr;
  for (size_t i = 0; i < splits.size(); ++i) {
    PrefixGroup& group = plan.prefixes.groups[i];
    if (group.blocks != of_cache) {
      of_cache = group.blocks;
      const SequenceView seen{nullptr, static_cast<Position>(splits[i]) * kSplitTokens, 0, 0};
      const std::vector<BlockId> table = add_wide_blocks(plan.wide_prefixes, seen, {}, of_cache);
      wide = staging_.send(std::span<const BlockId>(table));
    }
    group.blocks = wide;
  }
}

AttentionPlan AttentionPlans::make(const AttentionBatch& batch) {
  AttentionPlan plan(planned_for(batch));
  for (const SequenceView& sequence : batch.sequences) plan.first_blocks.push_back(sequence.blocks[0]);
  if (plan.shares && batch.sequences.size() > 1) add_prefixes(plan, batch);
  const DeviceSequences& on_device = tables_.find(batch.sequences, batch.view.layout.block_tokens);
  const int heads = heads_of_tile(plan.heads_per_kv);
  const int tokens = kTileRows / heads;
  int item = 0;
  for (const size_t i : longest_first(batch.sequences)) {
    const SequenceView& sequence = batch.sequences[i];
    plan.of_single_tokens = plan.of_single_tokens && sequence.rows == 1;
    if (plan.prompts != Prompts::kInTiles && sequence.rows >= tokens * kTilesOfPrompt) {
      const BlockId* blocks = blocks_of(plan, sequence, on_device.tables[i]);
      add_groups(plan.groups, sequence, plan.retention, plan.heads_per_kv, blocks);
      continue;
    }
    for (int first = 0; first < sequence.rows; first += tokens) {
      AttentionTile tile = make_tile(sequence, plan.retention, first, std::min(tokens, sequence.rows - first));
      tile.sequence = static_cast<int>(i);
      if (!plan.prefixes.pieces.empty()) begin_behind(plan.prefixes, i, batch.heads, tile);
      for (tile.first_head = 0; tile.first_head < plan.heads_per_kv; tile.first_head += heads) {
        tile.first_item = item;
        item += tile.splits();
        add_spans(plan.spans, tile);
        plan.in_many_spans = plan.in_many_spans || tile.end_split > kSpanSplits;
        plan.tiles.push_back(tile);
      }
    }
  }
  sort_groups(plan.groups);
  if (plan.retention.full() && plan.prefixes.pieces.empty()) {
    plan.whole_rows = whole_rows(plan.tiles, plan.kv_heads, device_.processors);
    plan.parts_of_rows = parts_of_rows(plan.tiles, plan.kv_heads, device_.processors);
  }
  return plan;
}

void AttentionPlans::send(AttentionPlan& plan, const AttentionBatch& batch) {
  if (!plan.groups.empty()) plan.device_groups = staging_.send(std::span<const AttentionGroup>(plan.groups));
  if (!plan.wide.empty()) plan.device_wide = staging_.send(std::span<const WideBlock>(plan.wide));
  if (!plan.prefixes.pieces.empty()) {
    plan.device_prefixes.groups = staging_.send(std::span<const PrefixGroup>(plan.prefixes.groups));
    plan.device_prefixes.pieces = staging_.send(std::span<const PrefixPiece>(plan.prefixes.pieces));
    plan.device_prefixes.piece_count = static_cast<int>(plan.prefixes.pieces.size());
    plan.device_prefixes.rows = staging_.send(std::span<const int>(plan.prefixes.rows));
    if (!plan.wide_prefixes.empty()) {
      plan.device_wide_prefixes = staging_.send(std::span<const WideBlock>(plan.wide_prefixes));
    }
  }
  if (plan.tiles.empty()) return;
  plan.device_tiles = staging_.send(std::span<const AttentionTile>(plan.tiles));
  const DeviceSequences& sequences = tables_.find(batch.sequences, batch.view.layout.block_tokens);
  const int items = plan.tiles.back().first_item + plan.tiles.back().splits();
  const auto count = static_cast<size_t>(items);
  if (staging_.held() && plan.retention.full()) {  // the batch may come again; a window's first key may be gone
    const size_t step = std::max<size_t>(4, plan.tiles.size() / 2);
    plan.spare = static_cast<int>((count + step - 1) / step * step - count);
    plan.spans.resize((plan.spans.size() + step - 1) / step * step);
  }
  plan.device_spans = staging_.send(std::span<const SpanItems>(plan.spans));
  const size_t bytes = (count + static_cast<size_t>(plan.spare)) * sizeof(AttentionItem);
  const Staging::Room room = staging_.take(bytes);
  auto* to = reinterpret_cast<AttentionItem*>(room.host);
  const size_t row_bytes = plan.needs_rows() ? plan.tiles.size() * sizeof(AttentionItem) : 0;
  const Staging::Room room_of_rows = row_bytes > 0 ? staging_.take(row_bytes) : Staging::Room{};
  auto* row = reinterpret_cast<AttentionItem*>(room_of_rows.host);
  for (const AttentionTile& tile : plan.tiles) {
    const SequenceView& sequence = batch.sequences[static_cast<size_t>(tile.sequence)];
    AttentionItem item;
    item.blocks = sequences.tables[static_cast<size_t>(tile.sequence)];
    item.query = sequence.start + tile.first_token;
    item.row = sequence.first_row + tile.first_token;
    item.tokens = static_cast<std::int16_t>(tile.tokens);
    item.first_head = static_cast<std::int16_t>(tile.first_head);
    item.after = sequence.rows - tile.first_token;
    for (int i = 0; i < tile.splits(); ++i) {
      item.first_key = tile.split_at(i);
      *to++ = item;
    }
    item.first_key = tile.splits();
    if (row != nullptr) *row++ = item;
  }
  for (int i = 0; i < plan.spare; ++i) {  // the first key of the first item, once more
    AttentionItem item = *reinterpret_cast<const AttentionItem*>(room.host);
    item.query = static_cast<Position>(item.first_key) * kSplitTokens;
    item.tokens = 1;
    item.after = 1;
    *to++ = item;
  }
  staging_.send(room, bytes);
  plan.device_items = reinterpret_cast<const AttentionItem*>(room.device);
  if (row_bytes > 0) staging_.send(room_of_rows, row_bytes);
  plan.device_rows = reinterpret_cast<const AttentionItem*>(room_of_rows.device);
}

}  // namespace kvasir::cuda
