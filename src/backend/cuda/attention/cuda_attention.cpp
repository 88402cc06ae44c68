#include "backend/cuda/attention/cuda_attention.h"

#include <algorithm>

#include "backend/cuda/attention/partition.h"
#include "backend/cuda/attention/prefix_plan.h"
#include "backend/cuda/capability.h"
#include "base/check.h"
#include "layout/codec.h"
#include "layout/row_codec.h"

namespace kvasir::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634F;
constexpr size_t kMostPartialBytes = size_t{256} << 20;  // of the partials of a pass
constexpr size_t kMostTilesOfPass = size_t{1} << 20;

int padded_dim(const KvShape& shape) {
  const int dim = std::max(shape.k_dim, shape.v_dim);
  return dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

AttentionDevice device_in_use(int sm_count) {
  AttentionDevice out;
  int device = 0;
  check(cudaGetDevice(&device), "looking at the device");
  check(cudaDeviceGetAttribute(&out.sm_count, cudaDevAttrMultiProcessorCount, device), "looking at the device");
  if (sm_count > 0) out.sm_count = std::min(out.sm_count, sm_count);
  out.has_tma = capability() == 90;
  return out;
}

template <class T>
T* grown(DeviceMemory& memory, size_t count) {
  memory.grow_to(count * sizeof(T));
  return reinterpret_cast<T*>(memory.data());
}

}  // namespace

CudaAttention::CudaAttention(cudaStream_t stream, Staging& staging, SequenceTables& tables, int sm_count)
    : stream_(stream),
      tables_(tables),
      device_(device_in_use(sm_count)),
      plans_(device_, staging, tables),
      dequant_prefill_(stream),
      dequant_prefixes_(stream) {}

bool usual_blocks(const KvView& view, int alignment) {
  const KvLayout& layout = view.layout;
  const int dim = layout.shape.k_dim;
  return layout.block_tokens == kBlockOfTile && layout.k_format == layout.v_format && layout.shape.v_dim == dim &&
         (dim == 64 || dim == 128) && view.page_bytes % alignment == 0;
}

bool needs_any_rule(const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const bool has_float32 = layout.k_format == KvFormat::kF32 || layout.v_format == KvFormat::kF32;
  const bool plain_keys = layout.shape.has_v() && std::max(layout.shape.k_dim, layout.shape.v_dim) <= kMostTileDim &&
                          batch.view.retention.chunk == 0;
  return has_float32 || !plain_keys || batch.rule != ScoreRule{batch.rule.scale};
}

bool CudaAttention::fills_rows(const AttentionBatch& batch, Matrix out) {
  int rows = 0;
  for (const SequenceView& sequence : batch.sequences) rows += sequence.rows;
  return rows == out.rows && !needs_any_rule(batch);
}

void CudaAttention::attend(const AttentionBatch& batch, Matrix out, GemmInput also) {
  needs_any_rule(batch) ? attend_any_rule(batch, out) : attend_tiles(batch, out, also);
}

const float* CudaAttention::rounded_queries(const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const auto numbers = static_cast<size_t>(batch.q.rows) * static_cast<size_t>(batch.heads * layout.shape.k_dim);
  QueryRows rows{batch.q, batch.heads, layout.shape.k_dim, layout.k_format};
  rows.floats = grown<float>(floats_, numbers);
  prepare_queries(rows, stream_);
  return rows.floats;
}

// All but what attend_any_rule() adds.
RuleAttention CudaAttention::rule_attention(const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  const DeviceSequences& sequences = tables_.find(batch.sequences, layout.block_tokens);
  RuleAttention args;
  args.view = batch.view;
  args.sequences = sequences.at;
  args.sequence_count = static_cast<int>(batch.sequences.size());
  args.rule = batch.rule;
  args.heads = batch.heads;
  args.q = batch.q.data;
  args.q_stride = batch.q.stride;
  args.states = batch.states;
  const KvShape& shape = layout.shape;
  args.mixed_dim = mixed_dim(layout);
  args.mixed_from = shape.has_v() || args.mixed_dim == shape.k_dim ? 0 : shape.v_in_k;
  args.out_from = args.mixed_dim == shape.v_dim ? 0 : shape.v_in_k;
  args.rotated = is_rotated(layout.v_format);
  for (const SequenceView& sequence : batch.sequences) {
    const int tokens = args.tokens_of_tile(sequence);
    for (int first = 0; first < sequence.rows; first += tokens) {
      const SeenChunks seen = seen_chunks(args, sequence, first, std::min(tokens, sequence.rows - first));
      args.chunk_slots = std::max(args.chunk_slots, seen.count());
    }
  }
  return args;
}

// Passes bound the memory of partials.
void CudaAttention::attend_any_rule(const AttentionBatch& batch, Matrix out) {
  const KvLayout& layout = batch.view.layout;
  RuleAttention args = rule_attention(batch);
  args.out = out;
  if (is_packed(layout.k_format)) {
    args.q = rounded_queries(batch);
    args.q_stride = std::int64_t{batch.heads} * layout.shape.k_dim;
  }
  int tiles = 0;
  for (const SequenceView& sequence : batch.sequences) tiles += args.tiles_of(sequence);
  const size_t rows_of_tile =
      static_cast<size_t>(layout.shape.heads * args.head_tiles()) * static_cast<size_t>(args.chunk_slots) * kTileRows;
  const size_t bytes_of_tile =
      std::max<size_t>(1, rows_of_tile * static_cast<size_t>(args.mixed_dim) * sizeof(float));
  const int most = static_cast<int>(std::clamp<size_t>(kMostPartialBytes / bytes_of_tile, 1, kMostTilesOfPass));
  const auto rows = rows_of_tile * static_cast<size_t>(std::min(most, tiles));
  args.partial_out = grown<float>(partial_out_, rows * static_cast<size_t>(args.mixed_dim));
  args.partial_states = grown<SoftmaxState>(partial_states_, rows);
  for (; args.first_tile < tiles; args.first_tile += most) {
    attend_by_rule(args, std::min(most, tiles - args.first_tile), stream_);
  }
}

void CudaAttention::prepare(const AttentionBatch& batch, AttentionArgs& args) {
  const KvLayout& layout = batch.view.layout;
  const auto rows = static_cast<size_t>(batch.q.rows) * static_cast<size_t>(batch.heads);
  QueryRows queries{batch.q, batch.heads, layout.shape.k_dim, layout.k_format};
  queries.halves = grown<std::uint16_t>(halves_, rows * static_cast<size_t>(args.k_stride));
  queries.stride = args.k_stride;
  if (is_packed(layout.k_format)) queries.scales = grown<float>(scales_, rows);
  prepare_queries(queries, stream_);
  args.q = queries.halves;
  args.q_scales = queries.scales;
}

AttentionArgs CudaAttention::args_for(const AttentionBatch& batch, const AttentionPlan& plan) {
  const KvLayout& layout = batch.view.layout;
  AttentionArgs args;
  args.sm_count = device_.sm_count;
  args.view = batch.view;
  args.sequences = tables_.find(batch.sequences, layout.block_tokens).at;
  args.heads_per_kv = plan.heads_per_kv;
  args.heads_of_tile = heads_of_tile(plan.heads_per_kv);
  args.scale = batch.rule.scale * kLog2E;
  args.k_stride = padded_dim(layout.shape);
  args.v_stride = (layout.shape.v_dim + 7) / 8 * 8;
  args.hadamard_out = is_rotated(layout.v_format);
  args.states = batch.states;
  args.queries = batch.q;
  args.chunk_groups = plan.device_chunk_groups;
  args.paths = plan.device_paths;
  return args;
}

void CudaAttention::attend_tiles(const AttentionBatch& batch, Matrix out, GemmInput also) {
  const AttentionPlan& plan = plans_.plan(batch);
  AttentionArgs args = args_for(batch, plan);
  args.out = out;
  args.also = also;
  const bool takes_float32 = !plan.trees && (device_.uses_tma(batch.view) || device_.uses_fp8(batch.view));
  if (!takes_float32) prepare(batch, args);
  if (!plan.prefill_tiles.empty()) {
    args.prefill_tiles = plan.device_prefill_tiles;
    args.prefill_tile_count = static_cast<int>(plan.prefill_tiles.size());
    attend_prefill_tiles(plan, args);
  }
  if (plan.tiles.empty()) return;
  if (const WholeRowLaunch launch = whole_row_launch(plan, batch.view); launch.ctas_per_row > 0) {
    return attend_whole_rows(plan, launch, args);
  }
  attend_by_partials(plan, args);
}

namespace {

// The tiles of a pass, from `first` on: as many as have at most `most_items` items, and at least one. Returns the
// end.
size_t take_tiles(const AttentionPlan& plan, size_t first, int most_items, AttentionArgs& args) {
  size_t end = first;
  args.first_item = plan.tiles[first].first_item;
  args.item_count = 0;
  args.most_rows = 0;
  do {
    args.most_rows = std::max(args.most_rows, plan.tiles[end].tokens * args.heads_of_tile);
    args.item_count += plan.tiles[end++].chunks();
  } while (end < plan.tiles.size() && args.item_count + plan.tiles[end].chunks() <= most_items);
  const bool last = end == plan.tiles.size();
  if (last) args.item_count += plan.padding_items;
  args.tiles = plan.device_tiles + first;
  args.items = plan.device_items + args.first_item;
  args.tile_count = static_cast<int>(end - first);
  args.first_chunk_group = plan.tiles[first].first_chunk_group;
  const int end_group = last ? static_cast<int>(plan.chunk_groups.size()) : plan.tiles[end].first_chunk_group;
  args.chunk_group_count = end_group - args.first_chunk_group;
  return end;
}

}  // namespace

// Passes bound the memory of partials.
void CudaAttention::attend_by_partials(const AttentionPlan& plan, AttentionArgs& args) {
  args.ticket_counter = ticket_counter();
  args.prefix_item_count = plan.device_prefixes.prefix_item_count;
  const auto rows_of_item = static_cast<size_t>(args.view.layout.shape.heads) * kTileRows;
  const size_t bytes_of_item = rows_of_item * static_cast<size_t>(args.v_stride) * sizeof(float);
  const auto most_items = static_cast<int>(std::max<size_t>(1, kMostPartialBytes / bytes_of_item));
  for (size_t first = 0; first < plan.tiles.size();) {
    first = take_tiles(plan, first, most_items, args);
    args.merges_chunk_groups = plan.prefixes.items.empty() && merges_chunk_groups(args);
    const auto partial_rows = rows_of_item * static_cast<size_t>(args.item_count);
    args.partial_out = grown<float>(partial_out_, partial_rows * static_cast<size_t>(args.v_stride));
    args.partial_states = grown<SoftmaxState>(partial_states_, partial_rows);
    reserve_items_beside_prefixes(plan, args);
    args.loads_before_pdl_wait = plan.decode_only && fits_low_latency(args);
    attend_items(args);
    if (args.prefix_item_count > 0) attend_prefixes(plan, args);
    merge(plan, args);
    args.prefill_tile_count = 0;  // the next pass follows a merge, and overlaps with nothing (PdlOrder)
    args.prefix_item_count = 0;
  }
}

// Leaves the last items to SMs that run no CTA of the shared-prefix kernel.
void CudaAttention::reserve_items_beside_prefixes(const AttentionPlan& plan, AttentionArgs& args) const {
  args.reserved_items = 0;
  const bool dequantizes = !plan.dequant_prefix_blocks.empty();  // then the shared-prefix kernel waits for that
  if (args.prefix_item_count == 0 || dequantizes || !device_.uses_tma(args.view) || fits_low_latency(args)) return;
  const int items = args.item_count * args.view.layout.shape.heads;
  const int warps = warps_of_tma(args.view.layout.shape.k_dim);
  args.reserved_items = items_beside_prefixes(items, warps, plan.prefixes.items, device_.sm_count);
  args.prefix_ctas = static_cast<unsigned>(ctas_for_prefix_items(args.prefix_item_count, device_.sm_count));
}

WholeRowLaunch CudaAttention::whole_row_launch(const AttentionPlan& plan, const KvView& view) const {
  const bool tma = device_.uses_tma(view);
  if (plan.trees || (!tma && !device_.uses_fp8(view) && !device_.uses_int(view))) return {};
  if (tma && plan.ctas_per_row > 0) return {plan.ctas_per_row, false, plan.decode_only};
  const int warps = tma ? kWarpsOfRows : warps_of_scaled_rows(view.layout.k_format);
  if (!plan.whole_rows.fits(warps, device_.sm_count)) return {};
  // Rows of the last round can be popped if all groups that warps load before pdl_wait() are of whole rounds.
  const int groups_before_wait = tma ? 2 * warps : warps;
  return {1, plan.whole_rows.least_groups >= groups_before_wait, plan.decode_only};
}

void CudaAttention::attend_whole_rows(const AttentionPlan& plan, const WholeRowLaunch& launch, AttentionArgs& args) {
  args.tile_count = static_cast<int>(plan.tiles.size());
  args.whole_rows = plan.device_rows;
  args.ctas_per_row = launch.ctas_per_row;
  args.pops_last_rows = launch.pops_last_rows;
  args.loads_before_pdl_wait = launch.loads_before_pdl_wait;
  if (launch.pops_last_rows) args.ticket_counter = ticket_counter();
  if (device_.uses_tma(args.view)) return whole_row_attention(args, stream_);
  device_.uses_fp8(args.view) ? fp8_attention(args, stream_) : int_attention(args, stream_);
}

// The workspace holds some KV heads at a time.
void CudaAttention::attend_prefill_tiles(const AttentionPlan& plan, AttentionArgs args) {
  if (plan.prefill_path == PrefillPath::kWgmma) return wgmma_attention(args, nullptr, stream_);
  const DequantWorkspace::BlockList list{plan.device_dequant_blocks, static_cast<int>(plan.dequant_blocks.size())};
  const KvView from = args.view;
  const int heads = from.layout.shape.heads;
  const int at_once = DequantWorkspace::heads_at_once(from.layout, list.count);
  for (args.first_kv_head = 0; args.first_kv_head < heads; args.first_kv_head += at_once) {
    const DequantWorkspace::DequantizedKv kv =
        dequant_prefill_.dequantize(from, list, {args.first_kv_head, std::min(at_once, heads - args.first_kv_head)});
    args.view = kv.view;
    wgmma_attention(args, kv.scales, stream_);
  }
}

int* CudaAttention::ticket_counter() {
  if (ticket_counter_.size() == 0) {
    ticket_counter_.grow_to(sizeof(int));
    check(cudaMemsetAsync(ticket_counter_.data(), 0, sizeof(int), stream_), "attention");
  }
  return reinterpret_cast<int*>(ticket_counter_.data());
}

void CudaAttention::attend_prefixes(const AttentionPlan& plan, AttentionArgs& args) {
  const auto sums = static_cast<size_t>(plan.prefixes.sums);
  args.prefix_out = grown<float>(prefix_out_, sums * static_cast<size_t>(args.v_stride));
  args.prefix_states = grown<SoftmaxState>(prefix_states_, sums);
  AttentionArgs of_prefixes = args;
  PrefixArgs prefixes = plan.device_prefixes;
  if (!plan.dequant_prefix_blocks.empty()) {
    const DequantWorkspace::DequantizedKv kv = dequant_prefixes_.dequantize(
        args.view, {plan.device_dequant_prefix_blocks, static_cast<int>(plan.dequant_prefix_blocks.size())},
        {0, args.view.layout.shape.heads});
    of_prefixes.view = kv.view;
    of_prefixes.prefix_item_count = 0;  // it runs after dequantize_blocks()
    prefixes.scales = kv.scales;
  }
  shared_prefix_attention(of_prefixes, prefixes, stream_);
}

PrefixShape CudaAttention::prefix_shape(const AttentionPlan& plan) const {
  if (plan.prefixes.items.empty()) return {};
  const PrefixArgs& prefixes = plan.device_prefixes;
  PrefixShape out;
  out.cohorts = prefixes.cohorts;
  out.items = prefixes.items;
  out.rows = prefixes.rows;
  out.item_count = prefixes.prefix_item_count;
  out.out = prefix_out_.data();
  out.states = prefix_states_.data();
  out.dequant_blocks = plan.device_dequant_prefix_blocks;
  out.dequant_block_count = static_cast<int>(plan.dequant_prefix_blocks.size());
  if (out.dequant_block_count > 0) {
    out.dequantized = dequant_prefixes_.numbers();
    out.dequantized_scales = dequant_prefixes_.scales();
  }
  return out;
}

std::optional<AttentionShape> CudaAttention::shape(const AttentionBatch& batch) {
  const KvLayout& layout = batch.view.layout;
  AttentionShape out;
  out.sequences = tables_.find(batch.sequences, layout.block_tokens).at;
  out.halves = halves_.data();
  out.floats = floats_.data();
  out.scales = scales_.data();
  out.partial_out = partial_out_.data();
  out.partial_states = partial_states_.data();
  out.ticket_counter = ticket_counter_.data();
  if (needs_any_rule(batch)) {
    out.chunk_slots = rule_attention(batch).chunk_slots;
    return out;
  }
  const AttentionPlan& plan = plans_.plan(batch);
  if (!plan.prefill_tiles.empty() || plan.tiles.empty()) return std::nullopt;
  out.tiles = plan.device_tiles;
  out.items = plan.device_items;
  out.chunk_groups = plan.device_chunk_groups;
  out.tile_count = static_cast<int>(plan.tiles.size());
  out.chunk_group_count = static_cast<int>(plan.chunk_groups.size());
  out.has_many_groups = plan.has_many_groups;
  out.prefix = prefix_shape(plan);
  out.whole_row_launch = whole_row_launch(plan, batch.view);
  if (out.whole_row_launch.ctas_per_row > 0) {
    out.whole_rows = plan.device_rows;
    return out;
  }
  out.item_count = plan.tiles.back().first_item + plan.tiles.back().chunks() + plan.padding_items;
  const size_t bytes_of_item = static_cast<size_t>(layout.shape.heads * kTileRows) *
                               static_cast<size_t>(layout.shape.v_dim + 8) * sizeof(float);
  if (static_cast<size_t>(out.item_count) * bytes_of_item > kMostPartialBytes) return std::nullopt;  // several passes
  return out;
}

// Whether a kernel takes whole chunk groups. With a window a group may lack its first chunks.
bool CudaAttention::merges_chunk_groups(const AttentionArgs& args) const {
  if (args.paths != nullptr) return false;
  const bool tma = device_.uses_tma(args.view) && !fits_low_latency(args);
  const bool int8 = device_.uses_int(args.view) && args.view.layout.k_format == KvFormat::kInt8;
  if (!tma && !device_.uses_fp8(args.view) && !int8) return false;
  if (!args.view.retention.full()) return false;
  return whole_groups_fit({args.chunk_group_count, args.item_count}, args.view.layout.shape.heads, device_.sm_count);
}

void CudaAttention::attend_items(const AttentionArgs& args) {
  if (args.paths != nullptr) return generic_attention(args, stream_);
  if (device_.uses_fp8(args.view)) return fp8_attention(args, stream_);
  if (device_.uses_tma(args.view)) {
    return fits_low_latency(args) ? low_latency_attention(args, stream_) : tma_attention(args, stream_);
  }
  if (device_.uses_int(args.view)) return int_attention(args, stream_);
  if (cp_async_attention(args, stream_)) return;
  generic_attention(args, stream_);
}

void CudaAttention::merge(const AttentionPlan& plan, const AttentionArgs& args) {
  constexpr int kRowsPerSm = 4;  // of merge_states_wide(), which run at once
  const int rows = args.tile_count * args.most_rows * args.view.layout.shape.heads;
  const bool few = rows <= device_.sm_count * kRowsPerSm;
  if (few && plan.has_many_groups && !args.merges_chunk_groups) return merge_states_wide(args, stream_);
  merge_states(args, stream_);
}

void CudaAttention::watch(const AttentionBatch& batch, const AttentionWatch& watch) {
  const KvLayout& layout = batch.view.layout;
  const DeviceSequences& sequences = tables_.find(batch.sequences, layout.block_tokens);
  WatchedRows rows{batch.view, sequences.at + watch.sequence, batch.heads, batch.rule, rounded_queries(batch), watch};
  rows.scratch = grown<float>(shares_, static_cast<size_t>(watch.stride) * static_cast<size_t>(layout.shape.heads));
  watch_rows(rows, stream_);
}

}  // namespace kvasir::cuda
