#include "backend/cuda/cuda_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "backend/cuda/attention_cut.h"
#include "backend/cuda/capability.h"
#include "base/check.h"
#include "base/error.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634F;
constexpr size_t kMostPartBytes = size_t{256} << 20;  // of split sums at once
constexpr std::int64_t kMostWideBytes = 1 << 30;      // of prefixes
constexpr int kWideningCost = 8;  // of bytes that are written: as many that are read take as long (bench/RESULTS.md)
constexpr std::int64_t kWorthSharing = 32 << 20;  // bytes that need not be read, for another launch

int padded_dim(const KvShape& shape) {
  const int dim = std::max(shape.k_dim, shape.v_dim);
  return dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

void check_dims(const KvShape& shape, int most) {
  const int dim = std::max(shape.k_dim, shape.v_dim);
  if (dim > most) {
    fail_usage(
        fmt::format("heads of {} numbers are longer than the {} that attention on this device takes", dim, most),
        "--device cuda", "use --device cpu");
  }
}

template <class T>
T* room(DeviceMemory& memory, size_t count) {
  memory.grow_to(count * sizeof(T));
  return reinterpret_cast<T*>(memory.data());
}

// What sequence `i` shares with others is not the tile's.
void begin_behind(const PrefixPlan& prefixes, size_t i, int heads, AttentionTile& tile) {
  tile.begun = prefixes.begun[i];
  tile.begun.at += static_cast<std::int64_t>(tile.first_token) * heads;
  tile.first_split = std::max(tile.first_split, prefixes.begun_splits[i]);
}

}  // namespace

CudaAttention::CudaAttention(cudaStream_t stream, Staging& staging, SequenceTables& tables)
    : stream_(stream), staging_(staging), tables_(tables), wide_(stream), wide_prefixes_(stream) {
  int device = 0;
  check(cudaGetDevice(&device), "looking at the device");
  check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device), "looking at the device");
  has_copy_engine_ = capability() == 90;
}

bool usual_blocks(const KvView& view, int alignment) {
  const KvLayout& layout = view.layout;
  const int dim = layout.shape.k_dim;
  return layout.block_tokens == kBlockOfTile && layout.k_format == layout.v_format && layout.shape.v_dim == dim &&
         (dim == 64 || dim == 128) && view.page_bytes % alignment == 0;
}

const CudaAttention::Plan& CudaAttention::plan(const AttentionBatch& batch) {
  const Retention& retention = batch.view.retention;
  const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  const Prompts prompts = prompts_of(batch.view);
  const bool shares = shares_prefixes(batch.view, heads_per_kv);
  if (!tables_.in_batch()) plans_.clear();
  for (const Plan& plan : plans_) {
    if (plan.sequences == batch.sequences.data() && plan.count == batch.sequences.size() &&
        plan.heads_per_kv == heads_per_kv && plan.retention == retention && plan.prompts == prompts &&
        plan.shares == shares) {
      return plan;
    }
  }
  Plan made = make_plan(batch);
  send(made, batch);
  return plans_.emplace_back(std::move(made));
}

// From so many tiles on a sequence's rows are a prompt's.
constexpr int kTilesOfPrompt = kRowsOfGroup / kTileRows / 2;

CudaAttention::Prompts CudaAttention::prompts_of(const KvView& view) const {
  if (reads_boxes(view)) return Prompts::kInGroups;
  return has_copy_engine_ && can_widen(view.layout) ? Prompts::kWidened : Prompts::kInTiles;
}

const BlockId* CudaAttention::blocks_of(Plan& plan, const SequenceView& sequence, const BlockId* table) {
  if (plan.prompts != Prompts::kWidened) return table;
  const std::vector<BlockId> wide = add_wide_blocks(plan.wide, sequence, plan.retention, table);
  return staging_.send(std::span<const BlockId>(wide));
}

bool CudaAttention::shares_prefixes(const KvView& view, int heads_per_kv) const {
  const bool readable = reads_boxes(view) || (has_copy_engine_ && can_widen(view.layout));
  return readable && view.layout.block_tokens == kBlockOfTile && view.retention.full() && view.finer.full() &&
         heads_per_kv <= kRowsOfPrefix;
}

void CudaAttention::add_prefixes(Plan& plan, const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const bool widened = plan.prompts == Prompts::kWidened;
  PrefixRules rules;
  rules.heads_per_kv = plan.heads_per_kv;
  rules.most_rows = kTileRows / heads_of_tile(plan.heads_per_kv) * kTilesOfPrompt - 1;
  rules.worth_bytes = kWorthSharing;
  rules.processors = processors_;
  const std::int64_t wide_bytes = wide_layout(layout, layout.shape.heads).block_bytes();
  if (widened) rules.cost = static_cast<int>(kWideningCost * wide_bytes / layout.layer_bytes());
  plan.prefixes = plan_prefixes(batch, tables_.find(batch.sequences, kBlockOfTile).tables, rules);
  if (!widened) return;
  widen_prefixes(plan);
  if (std::ssize(plan.wide_prefixes) * wide_bytes <= kMostWideBytes) return;
  plan.prefixes = {};
  plan.wide_prefixes.clear();
}

// Groups of one prefix lie side by side.
void CudaAttention::widen_prefixes(Plan& plan) {
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

CudaAttention::Plan CudaAttention::make_plan(const AttentionBatch& batch) {
  Plan plan;
  plan.sequences = batch.sequences.data();
  plan.count = batch.sequences.size();
  plan.heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  plan.retention = batch.view.retention;
  plan.prompts = prompts_of(batch.view);
  plan.shares = shares_prefixes(batch.view, plan.heads_per_kv);
  if (plan.shares && batch.sequences.size() > 1) add_prefixes(plan, batch);
  const DeviceSequences& on_device = tables_.find(batch.sequences, batch.view.layout.block_tokens);
  const int heads = heads_of_tile(plan.heads_per_kv);
  const int tokens = kTileRows / heads;
  int item = 0;
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const SequenceView& sequence = batch.sequences[i];
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
  return plan;
}

void CudaAttention::send(Plan& plan, const AttentionBatch& batch) {
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
  const auto count = static_cast<size_t>(plan.tiles.back().first_item + plan.tiles.back().splits());
  if (staging_.held() && plan.retention.full()) {  // the batch may come again; a window's first key may be gone
    const size_t step = std::max<size_t>(4, plan.tiles.size() / 2);
    plan.spare = static_cast<int>((count + step - 1) / step * step - count);
    plan.spans.resize((plan.spans.size() + step - 1) / step * step);
  }
  plan.device_spans = staging_.send(std::span<const SpanItems>(plan.spans));
  const size_t bytes = (count + static_cast<size_t>(plan.spare)) * sizeof(AttentionItem);
  const Staging::Room room = staging_.take(bytes);
  auto* to = reinterpret_cast<AttentionItem*>(room.host);
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
}

namespace {

bool is_plain(const KvLayout& layout) {
  return layout.k_format == KvFormat::kF32 || layout.v_format == KvFormat::kF32;
}

}  // namespace

bool CudaAttention::fills_rows(const AttentionBatch& batch, Matrix out) {
  int rows = 0;
  for (const SequenceView& sequence : batch.sequences) rows += sequence.rows;
  return rows == out.rows && !is_plain(batch.view.layout);
}

void CudaAttention::attend(const AttentionBatch& batch, Matrix out, RowsRoom also) {
  is_plain(batch.view.layout) ? attend_plainly(batch, out) : attend_to_tiles(batch, out, also);
}

const float* CudaAttention::float_queries(const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const auto numbers = static_cast<size_t>(batch.q.rows) * static_cast<size_t>(batch.heads * layout.shape.k_dim);
  QueryRows rows{batch.q, batch.heads, layout.shape.k_dim, layout.k_format};
  rows.floats = room<float>(floats_, numbers);
  prepare_queries(rows, stream_);
  return rows.floats;
}

void CudaAttention::attend_plainly(const AttentionBatch& batch, Matrix out) {
  const KvLayout& layout = batch.view.layout;
  check_dims(layout.shape, kMostPlainHeadDim);
  const DeviceSequences& sequences = tables_.find(batch.sequences, layout.block_tokens);
  const float* q = float_queries(batch);
  plain_attention({batch.view, sequences.at, sequences.rows, batch.heads, batch.scale, q, out, batch.states},
                  stream_);
  if (is_rotated(layout.v_format)) turn_rows(out, batch.heads, sequences.at, sequences.rows, stream_);
}

void CudaAttention::prepare(const AttentionBatch& batch, AttentionArgs& args) {
  const KvLayout& layout = batch.view.layout;
  const auto rows = static_cast<size_t>(batch.q.rows) * static_cast<size_t>(batch.heads);
  QueryRows queries{batch.q, batch.heads, layout.shape.k_dim, layout.k_format};
  queries.halves = room<std::uint16_t>(halves_, rows * static_cast<size_t>(args.k_stride));
  queries.stride = args.k_stride;
  if (is_packed(layout.k_format)) queries.scales = room<float>(scales_, rows);
  prepare_queries(queries, stream_);
  args.q = queries.halves;
  args.q_scales = queries.scales;
}

void CudaAttention::attend_to_tiles(const AttentionBatch& batch, Matrix out, RowsRoom also) {
  const KvLayout& layout = batch.view.layout;
  check_dims(layout.shape, kMostHeadDim);
  const Plan& cut = plan(batch);
  AttentionArgs args;
  args.processors = processors_;
  args.view = batch.view;
  args.sequences = tables_.find(batch.sequences, layout.block_tokens).at;
  args.heads_per_kv = cut.heads_per_kv;
  args.heads_of_tile = heads_of_tile(cut.heads_per_kv);
  args.scale = batch.scale * kLog2E;
  args.k_stride = padded_dim(layout.shape);
  args.v_stride = (layout.shape.v_dim + 7) / 8 * 8;
  args.turns = is_rotated(layout.v_format);
  args.out = out;
  args.also = also;
  args.states = batch.states;
  args.queries = batch.q;
  args.spans = cut.device_spans;
  const bool as_they_come = reads_boxes(batch.view) || reads_fp8(batch.view);
  if (!as_they_come) prepare(batch, args);
  if (!cut.groups.empty()) {
    args.groups = cut.device_groups;
    args.group_count = static_cast<int>(cut.groups.size());
    attend_to_groups(cut, args);
  }
  if (cut.tiles.empty()) return;
  args.taken = zero();
  args.piece_count = cut.device_prefixes.piece_count;
  const auto rows_of_item = static_cast<size_t>(layout.shape.heads) * kTileRows;
  const size_t bytes_of_item = rows_of_item * static_cast<size_t>(args.v_stride) * sizeof(float);
  const auto most_items = static_cast<int>(std::max<size_t>(1, kMostPartBytes / bytes_of_item));
  for (size_t first = 0, end = 0; first < cut.tiles.size(); first = end) {
    args.first_item = cut.tiles[first].first_item;
    args.item_count = 0;
    args.most_rows = 0;
    do {
      args.most_rows = std::max(args.most_rows, cut.tiles[end].tokens * args.heads_of_tile);
      args.item_count += cut.tiles[end++].splits();
    } while (end < cut.tiles.size() && args.item_count + cut.tiles[end].splits() <= most_items);
    if (end == cut.tiles.size()) args.item_count += cut.spare;
    args.tiles = cut.device_tiles + first;
    args.items = cut.device_items + args.first_item;
    args.tile_count = static_cast<int>(end - first);
    args.first_span = cut.tiles[first].first_span;
    const int end_span = end == cut.tiles.size() ? static_cast<int>(cut.spans.size()) : cut.tiles[end].first_span;
    args.span_count = end_span - args.first_span;
    args.folds_spans = cut.prefixes.pieces.empty() && folds_spans(args);
    const auto part_rows = rows_of_item * static_cast<size_t>(args.item_count);
    args.part_out = room<float>(part_out_, part_rows * static_cast<size_t>(args.v_stride));
    args.part_states = room<SoftmaxState>(part_states_, part_rows);
    attend_to_items(args);
    if (args.piece_count > 0) attend_to_prefixes(cut, args);
    merge(cut, args);
    args.group_count = 0;  // what comes now is behind the merge alone
    args.piece_count = 0;
  }
}

// Blocks are widened for as many KV heads at a time as there is room for.
void CudaAttention::attend_to_groups(const Plan& plan, AttentionArgs args) {
  if (plan.prompts == Prompts::kInGroups) return prompt_attention(args, stream_);
  const WideRoom::List list{plan.device_wide, static_cast<int>(plan.wide.size())};
  const KvView from = args.view;
  const int heads = from.layout.shape.heads;
  const int at_once = WideRoom::heads_at_once(from.layout, list.count);
  for (args.first_kv_head = 0; args.first_kv_head < heads; args.first_kv_head += at_once) {
    const WideRoom::Wide wide =
        wide_.widen(from, list, {args.first_kv_head, std::min(at_once, heads - args.first_kv_head)});
    args.view = wide.view;
    wide.scales == nullptr ? prompt_attention(args, stream_) : prompt_attention(args, wide.scales, stream_);
  }
}

// A number that is 0 between two launches.
int* CudaAttention::zero() {
  if (taken_.size() == 0) {
    taken_.grow_to(sizeof(int));
    check(cudaMemsetAsync(taken_.data(), 0, sizeof(int), stream_), "attention");
  }
  return reinterpret_cast<int*>(taken_.data());
}

void CudaAttention::attend_to_prefixes(const Plan& plan, AttentionArgs& args) {
  const auto sums = static_cast<size_t>(plan.prefixes.sums);
  args.begun_out = room<float>(begun_out_, sums * static_cast<size_t>(args.v_stride));
  args.begun_states = room<SoftmaxState>(begun_states_, sums);
  AttentionArgs of_prefixes = args;
  PrefixArgs prefixes = plan.device_prefixes;
  if (!plan.wide_prefixes.empty()) {
    const WideRoom::Wide wide =
        wide_prefixes_.widen(args.view, {plan.device_wide_prefixes, static_cast<int>(plan.wide_prefixes.size())},
                             {0, args.view.layout.shape.heads});
    of_prefixes.view = wide.view;
    of_prefixes.piece_count = 0;  // it is behind that
    prefixes.scales = wide.scales;
  }
  prefix_attention(of_prefixes, prefixes, stream_);
}

std::optional<AttentionShape> CudaAttention::shape(const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  AttentionShape out;
  out.at = {tables_.find(batch.sequences, layout.block_tokens).at,
            halves_.data(),
            floats_.data(),
            scales_.data(),
            part_out_.data(),
            part_states_.data(),
            taken_.data()};
  if (is_plain(layout)) return out;
  const Plan& cut = plan(batch);
  if (!cut.groups.empty() || cut.tiles.empty()) return std::nullopt;
  out.at[7] = cut.device_tiles;
  out.at[8] = cut.device_items;
  if (!cut.prefixes.pieces.empty()) {
    const PrefixArgs& prefixes = cut.device_prefixes;
    const std::array<const void*, 5> also{prefixes.groups, prefixes.pieces, prefixes.rows, begun_out_.data(),
                                          begun_states_.data()};
    std::ranges::copy(also, out.at.begin() + 9);
    out.pieces = prefixes.piece_count;
    out.at[15] = cut.device_wide_prefixes;
    if (!cut.wide_prefixes.empty()) std::ranges::copy(wide_prefixes_.at(), out.at.begin() + 16);
    out.wide = static_cast<int>(cut.wide_prefixes.size());
  }
  out.at[14] = cut.device_spans;
  out.tiles = static_cast<int>(cut.tiles.size());
  out.spans = static_cast<int>(cut.spans.size());
  out.in_many_spans = cut.in_many_spans;
  out.items = cut.tiles.back().first_item + cut.tiles.back().splits() + cut.spare;
  const size_t bytes_of_item = static_cast<size_t>(layout.shape.heads * kTileRows) *
                               static_cast<size_t>(layout.shape.v_dim + 8) * sizeof(float);
  if (static_cast<size_t>(out.items) * bytes_of_item > kMostPartBytes) return std::nullopt;  // more than one launch
  return out;
}

// Whether a kernel takes whole spans, where all begin with their first split: if there are so many that all
// processors are busy most of the time, and each has splits enough to be worth it.
bool CudaAttention::folds_spans(const AttentionArgs& args) const {
  const bool in_boxes = reads_boxes(args.view) && !suits_teams(args);
  const bool in_codes = reads_codes(args.view) && args.view.layout.k_format == KvFormat::kInt8;
  if (!in_boxes && !reads_fp8(args.view) && !in_codes) return false;
  if (!args.view.retention.full()) return false;
  const int spans = args.span_count * args.view.layout.shape.heads;
  const int rounds = (spans + processors_ - 1) / processors_;
  return spans * 4 >= rounds * processors_ * 3 && args.span_count * (kSpanSplits / 2) <= args.item_count;
}

void CudaAttention::attend_to_items(const AttentionArgs& args) {
  if (reads_fp8(args.view)) return fp8_attention(args, stream_);
  if (reads_boxes(args.view)) {
    return suits_teams(args) ? team_attention(args, stream_) : boxed_attention(args, stream_);
  }
  if (reads_codes(args.view)) return packed_attention(args, stream_);
  if (block_attention(args, stream_)) return;
  tile_attention(args, stream_);
}

void CudaAttention::merge(const Plan& plan, const AttentionArgs& args) {
  constexpr int kRowsOfProcessor = 4;  // that merge_spans() has room for at once
  const int rows = args.tile_count * args.most_rows * args.view.layout.shape.heads;
  const bool few = rows <= processors_ * kRowsOfProcessor;
  if (few && plan.in_many_spans && !args.folds_spans) return merge_spans(args, stream_);
  merge_splits(args, stream_);
}

void CudaAttention::watch(const AttentionBatch& batch, const AttentionWatch& watch) {
  const KvLayout& layout = batch.view.layout;
  const DeviceSequences& sequences = tables_.find(batch.sequences, layout.block_tokens);
  WatchedRows rows{batch.view, sequences.at + watch.sequence, batch.heads, batch.scale, float_queries(batch), watch};
  rows.scratch = room<float>(shares_, static_cast<size_t>(watch.stride) * static_cast<size_t>(layout.shape.heads));
  watch_rows(rows, stream_);
}

}  // namespace kvasir::cuda
