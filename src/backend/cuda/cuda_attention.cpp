#include "backend/cuda/cuda_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/attention_cut.h"
#include "backend/cuda/capability.h"
#include "backend/cuda/prefix_plan.h"
#include "base/check.h"
#include "base/error.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634F;
constexpr size_t kMostPartBytes = size_t{256} << 20;  // of split sums at once

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

AttentionDevice device_in_use(int processors) {
  AttentionDevice out;
  int device = 0;
  check(cudaGetDevice(&device), "looking at the device");
  check(cudaDeviceGetAttribute(&out.processors, cudaDevAttrMultiProcessorCount, device), "looking at the device");
  if (processors > 0) out.processors = std::min(out.processors, processors);
  out.has_copy_engine = capability() == 90;
  return out;
}

template <class T>
T* room(DeviceMemory& memory, size_t count) {
  memory.grow_to(count * sizeof(T));
  return reinterpret_cast<T*>(memory.data());
}

}  // namespace

CudaAttention::CudaAttention(cudaStream_t stream, Staging& staging, SequenceTables& tables, int processors)
    : stream_(stream),
      tables_(tables),
      device_(device_in_use(processors)),
      plans_(device_, staging, tables),
      wide_(stream),
      wide_prefixes_(stream) {}

bool usual_blocks(const KvView& view, int alignment) {
  const KvLayout& layout = view.layout;
  const int dim = layout.shape.k_dim;
  return layout.block_tokens == kBlockOfTile && layout.k_format == layout.v_format && layout.shape.v_dim == dim &&
         (dim == 64 || dim == 128) && view.page_bytes % alignment == 0;
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
  const AttentionPlan& cut = plans_.plan(batch);
  AttentionArgs args;
  args.processors = device_.processors;
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
  const bool as_they_come = device_.reads_boxes(batch.view) || device_.reads_fp8(batch.view);
  if (!as_they_come) prepare(batch, args);
  if (!cut.groups.empty()) {
    args.groups = cut.device_groups;
    args.group_count = static_cast<int>(cut.groups.size());
    attend_to_groups(cut, args);
  }
  if (cut.tiles.empty()) return;
  if (const RowLaunch launch = row_launch(cut, batch.view); launch.blocks_of_row > 0) {
    return attend_to_rows(cut, launch, args);
  }
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
    leave_items_beside_pieces(cut, args);
    args.begins_early = cut.of_single_tokens && suits_teams(args);
    attend_to_items(args);
    if (args.piece_count > 0) attend_to_prefixes(cut, args);
    merge(cut, args);
    args.group_count = 0;  // what comes now is behind the merge alone
    args.piece_count = 0;
  }
}

// To processors that attention to prefixes leaves alone.
void CudaAttention::leave_items_beside_pieces(const AttentionPlan& plan, AttentionArgs& args) const {
  args.reserved = 0;
  const bool apart = !plan.wide_prefixes.empty();  // these are widened first, and wait for that
  if (args.piece_count == 0 || apart || !device_.reads_boxes(args.view) || suits_teams(args)) return;
  const int items = args.item_count * args.view.layout.shape.heads;
  const int warps = warps_over_boxes(args.view.layout.shape.k_dim);
  args.reserved = items_beside_pieces(items, warps, plan.prefixes.pieces, device_.processors);
  args.busy_blocks = static_cast<unsigned>(blocks_for_pieces(args.piece_count, device_.processors));
}

RowLaunch CudaAttention::row_launch(const AttentionPlan& plan, const KvView& view) const {
  const bool in_boxes = device_.reads_boxes(view);
  if (!in_boxes && !device_.reads_fp8(view) && !device_.reads_codes(view)) return {};
  if (in_boxes && plan.parts_of_rows > 0) return {plan.parts_of_rows, false, plan.of_single_tokens};
  const int warps = in_boxes ? kWarpsOfRows : warps_of_coded_rows(view.layout.k_format);
  if (!plan.whole_rows.suit(warps, device_.processors)) return {};
  // Rows of the last round may be drawn where all that warps look for before the kernels ahead have ended, two spans
  // each or one, is of whole rounds.
  const int seen_early = in_boxes ? 2 * warps : warps;
  return {1, plan.whole_rows.sure_spans >= seen_early, plan.of_single_tokens};
}

void CudaAttention::attend_to_rows(const AttentionPlan& plan, const RowLaunch& launch, AttentionArgs& args) {
  args.tile_count = static_cast<int>(plan.tiles.size());
  args.rows = plan.device_rows;
  args.blocks_of_row = launch.blocks_of_row;
  args.draws_rows = launch.draws_rows;
  args.begins_early = launch.begins_early;
  if (launch.draws_rows) args.taken = zero();
  if (device_.reads_boxes(args.view)) return row_attention(args, stream_);
  device_.reads_fp8(args.view) ? fp8_attention(args, stream_) : packed_attention(args, stream_);
}

// Blocks are widened for as many KV heads at a time as there is room for.
void CudaAttention::attend_to_groups(const AttentionPlan& plan, AttentionArgs args) {
  if (plan.prompts == Prompts::kInGroups) return prompt_attention(args, nullptr, stream_);
  const WideRoom::List list{plan.device_wide, static_cast<int>(plan.wide.size())};
  const KvView from = args.view;
  const int heads = from.layout.shape.heads;
  const int at_once = WideRoom::heads_at_once(from.layout, list.count);
  for (args.first_kv_head = 0; args.first_kv_head < heads; args.first_kv_head += at_once) {
    const WideRoom::Wide wide =
        wide_.widen(from, list, {args.first_kv_head, std::min(at_once, heads - args.first_kv_head)});
    args.view = wide.view;
    prompt_attention(args, wide.scales, stream_);
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

void CudaAttention::attend_to_prefixes(const AttentionPlan& plan, AttentionArgs& args) {
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
  const AttentionPlan& cut = plans_.plan(batch);
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
  out.rows = row_launch(cut, batch.view);
  if (out.rows.blocks_of_row > 0) {
    out.at[18] = cut.device_rows;
    return out;
  }
  out.items = cut.tiles.back().first_item + cut.tiles.back().splits() + cut.spare;
  const size_t bytes_of_item = static_cast<size_t>(layout.shape.heads * kTileRows) *
                               static_cast<size_t>(layout.shape.v_dim + 8) * sizeof(float);
  if (static_cast<size_t>(out.items) * bytes_of_item > kMostPartBytes) return std::nullopt;  // more than one launch
  return out;
}

// Whether a kernel takes whole spans, where all begin with their first split.
bool CudaAttention::folds_spans(const AttentionArgs& args) const {
  const bool in_boxes = device_.reads_boxes(args.view) && !suits_teams(args);
  const bool in_codes = device_.reads_codes(args.view) && args.view.layout.k_format == KvFormat::kInt8;
  if (!in_boxes && !device_.reads_fp8(args.view) && !in_codes) return false;
  if (!args.view.retention.full()) return false;
  return whole_spans_suit({args.span_count, args.item_count}, args.view.layout.shape.heads, device_.processors);
}

void CudaAttention::attend_to_items(const AttentionArgs& args) {
  if (device_.reads_fp8(args.view)) return fp8_attention(args, stream_);
  if (device_.reads_boxes(args.view)) {
    return suits_teams(args) ? team_attention(args, stream_) : boxed_attention(args, stream_);
  }
  if (device_.reads_codes(args.view)) return packed_attention(args, stream_);
  if (block_attention(args, stream_)) return;
  tile_attention(args, stream_);
}

void CudaAttention::merge(const AttentionPlan& plan, const AttentionArgs& args) {
  constexpr int kRowsOfProcessor = 4;  // that merge_spans() has room for at once
  const int rows = args.tile_count * args.most_rows * args.view.layout.shape.heads;
  const bool few = rows <= device_.processors * kRowsOfProcessor;
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
