#include "backend/cpu/cpu_attention.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "layout/codec.h"
#include "layout/row_codec.h"

namespace kvasir::cpu {
namespace {

constexpr size_t kLine = 64;

size_t padded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

int rounded_to_lanes(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The rows of q, [rows][k_dim], as they meet packed keys: turned, rounded, as bytes behind q's own room.
void pack_queries(const AttentionBatch& batch, float* q, AttendTask& task) {
  const int k_dim = batch.view.layout.shape.k_dim;
  task.codes.stride = rounded_to_lanes(k_dim);
  auto* to = reinterpret_cast<std::int8_t*>(q + static_cast<std::ptrdiff_t>(kMaxQueryRows) * k_dim);
  task.codes.at = to;
  for (int row = 0; row < task.rows; ++row, q += k_dim, to += task.codes.stride) {
    turn(batch.view.layout.k_format, q, k_dim);
    task.codes.scale[row] = round_query(q, k_dim) * batch.rule.scale;
    std::fill_n(to, task.codes.stride, std::int8_t{0});
    for (int d = 0; d < k_dim; ++d) to[d] = static_cast<std::int8_t>(q[d]);
    task.codes.sum[row] = std::accumulate(to, to + k_dim, 0);
  }
}

}  // namespace

void Attention::run(const AttentionBatch& batch, Matrix out) {
  const int kv_heads = batch.view.layout.shape.heads;
  CHECK(batch.heads % kv_heads == 0);
  plan_.build(batch);
  if (plan_.tiles().empty()) return;
  const Room room = room_for(batch);
  const size_t bytes = room.total * static_cast<size_t>(pool_.threads());
  if (scratch_.bytes() < bytes) scratch_ = allocate_host(bytes);
  // Units are what threads share when tiles are few and contexts long, and what sequences share under one prefix.
  // Otherwise a tile goes through its splits alone, and its sums never leave the cache. Either way each split is
  // computed alone and splits merge in order: the bits are the same.
  if (static_cast<int>(plan_.tiles().size()) * kv_heads < 2 * pool_.threads()) plan_.spread_all();
  if (!plan_.spread_tiles().empty()) run_units(batch, room, out);
  if (plan_.spread_tiles().size() < plan_.tiles().size()) run_whole(batch, room, out);
}

Attention::Room Attention::room_for(const AttentionBatch& batch) {
  const KvShape& shape = batch.view.layout.shape;
  Room room{};
  room.stride = rounded_to_lanes(mixed_dim(batch.view.layout));
  const auto take = [&room](size_t bytes) {
    const size_t at = room.total;
    room.total += padded(bytes);
    return at;
  };
  const auto rows = static_cast<size_t>(kMaxQueryRows);
  const auto stride = static_cast<size_t>(room.stride);
  const auto k_dim = static_cast<size_t>(shape.k_dim);
  room.scores = take(rows * kSplitTokens * sizeof(float));
  room.keys = take(kSplitTokens * k_dim * sizeof(float));
  room.values = take(kSplitTokens * stride * sizeof(float));
  room.weights = take(rows * 2 * kSplitTokens);
  room.q = take(rows * (k_dim * sizeof(float) + static_cast<size_t>(rounded_to_lanes(shape.k_dim))));
  room.part = take(rows * stride * sizeof(float));
  room.sums = take(rows * stride * sizeof(float));
  room.states = take(2 * rows * sizeof(SoftmaxState));
  return room;
}

std::byte* Attention::base_of(int thread, const Room& room) const {
  return scratch_.as<std::byte>() + static_cast<size_t>(thread) * room.total;
}

AttendScratch Attention::scratch_of(std::byte* base, const Room& room) {
  return {reinterpret_cast<float*>(base + room.scores), base + room.keys,
          reinterpret_cast<float*>(base + room.values), reinterpret_cast<std::int8_t*>(base + room.weights)};
}

void Attention::split(const AttendTask& task, std::int64_t split, const AttendScratch& scratch,
                      PartialRows out) const {
  const KvLayout& layout = task.view.layout;
  weigh(task, split, scratch, out);
  (is_packed(layout.v_format) && layout.shape.has_v() ? packed_ : kernels_).mix(task, split, scratch, out);
}

// The weights of a split, in scratch.scores, and the rows' states.
void Attention::weigh(const AttendTask& task, std::int64_t split, const AttendScratch& scratch,
                      PartialRows out) const {
  (is_packed(task.view.layout.k_format) ? packed_ : kernels_).score(task, split, scratch, out);
  if (task.rule.adjusts_scores()) kernels_.adjust(task, split, scratch, out);
  kernels_.weigh(task, split, scratch, out);
}

// The rows of these tiles, which read the same blocks, one tile after the other; q is where their scaled queries go,
// and what packed keys need of them.
AttendTask Attention::task_of(const AttentionBatch& batch, std::span<const int> tiles, int kv_head, float* q) const {
  std::array<QueryTile, kMaxQueryRows> of;
  for (size_t i = 0; i < tiles.size(); ++i) of[i] = plan_.tiles()[static_cast<size_t>(tiles[i])];
  return task_of(batch, std::span<const QueryTile>(of).first(tiles.size()), kv_head, q);
}

AttendTask Attention::task_of(const AttentionBatch& batch, std::span<const QueryTile> tiles, int kv_head, float* q) {
  AttendTask task;
  task.view = batch.view;
  task.rule = batch.rule;
  task.kv_head = kv_head;
  task.q = q;
  const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  const int k_dim = batch.view.layout.shape.k_dim;
  const bool packed = is_packed(batch.view.layout.k_format);
  const float scale = packed ? 1.0F : batch.rule.scale;
  float* first = q;
  for (const QueryTile& tile : tiles) {
    task.sequence = batch.sequences[static_cast<size_t>(tile.sequence)];
    task.path = task.sequence.path_of(tile.first_token);
    const int first_head = kv_head * heads_per_kv + tile.first_head;
    const int width = tile.heads * k_dim;
    for (int token = tile.first_token; token < tile.first_token + tile.tokens; ++token) {
      const float* from =
          batch.q.row(task.sequence.first_row + token) + static_cast<std::ptrdiff_t>(first_head) * k_dim;
      for (int i = 0; i < width; ++i) *q++ = from[i] * scale;
      const Position last_key = batch.last_key(task.sequence, token);
      const Position query = task.sequence.position_of(token);
      for (int h = 0; h < tile.heads; ++h, ++task.rows) {
        task.positions[task.rows] = last_key;
        task.queries[task.rows] = query;
        task.heads[task.rows] = first_head + h;
      }
    }
  }
  if (packed) pack_queries(batch, first, task);
  return task;
}

void Attention::run_whole(const AttentionBatch& batch, const Room& room, Matrix out) {
  const int kv_heads = batch.view.layout.shape.heads;
  pool_.parallel_for(static_cast<std::int64_t>(plan_.tiles().size()) * kv_heads, [&](std::int64_t i, int thread) {
    std::byte* base = base_of(thread, room);
    const int t = static_cast<int>(i / kv_heads);
    const int kv_head = static_cast<int>(i % kv_heads);
    if (plan_.spread(t)) return;
    const QueryTile& tile = plan_.tiles()[static_cast<size_t>(t)];
    const AttendTask task = task_of(batch, {&t, 1}, kv_head, reinterpret_cast<float*>(base + room.q));
    const AttendScratch scratch = scratch_of(base, room);
    auto* states = reinterpret_cast<SoftmaxState*>(base + room.states);
    const PartialRows part{reinterpret_cast<float*>(base + room.part), states, room.stride};
    const PartialRows sums{reinterpret_cast<float*>(base + room.sums), states + kMaxQueryRows, room.stride};
    bool first = true;
    for (const std::int64_t split : plan_.splits()) {
      if (!AttentionPlan::sees(batch, tile, split)) continue;
      this->split(task, split, scratch, first ? sums : part);
      if (!first) kernels_.merge(sums, part, task.rows);
      first = false;
    }
    finish(batch, tile, kv_head, first ? PartialRows{} : sums, out);
  });
}

void Attention::run_units(const AttentionBatch& batch, const Room& room, Matrix out) {
  const int kv_heads = batch.view.layout.shape.heads;
  part_rows_ = 0;
  for (const int tile : plan_.spread_tiles()) {
    part_rows_ = std::max(part_rows_, plan_.tiles()[static_cast<size_t>(tile)].rows());
  }
  const size_t part_bytes = padded(static_cast<size_t>(part_rows_) *
                                   (static_cast<size_t>(room.stride) * sizeof(float) + sizeof(SoftmaxState)));
  const size_t bytes =
      plan_.splits().size() * static_cast<size_t>(kv_heads) * plan_.spread_tiles().size() * part_bytes;
  if (partials_.bytes() < bytes) partials_ = allocate_host(bytes);
  pool_.parallel_for(static_cast<std::int64_t>(plan_.units().size()) * kv_heads, [&](std::int64_t i, int thread) {
    const SplitUnit& unit = plan_.units()[static_cast<size_t>(i / kv_heads)];
    if (!plan_.spread(plan_.order()[static_cast<size_t>(unit.first)])) return;
    compute_unit(batch, unit, static_cast<int>(i % kv_heads), base_of(thread, room), room);
  });
  pool_.parallel_for(static_cast<std::int64_t>(plan_.spread_tiles().size()) * kv_heads, [&](std::int64_t i, int) {
    const int tile = plan_.spread_tiles()[static_cast<size_t>(i / kv_heads)];
    merge_tile(batch, tile, static_cast<int>(i % kv_heads), room.stride, out);
  });
}

PartialRows Attention::part_at(const AttentionBatch& batch, int tile, int kv_head, int split, int stride) const {
  const auto rows = static_cast<size_t>(part_rows_);
  const size_t o_bytes = rows * static_cast<size_t>(stride) * sizeof(float);
  const size_t part_bytes = padded(o_bytes + rows * sizeof(SoftmaxState));
  const std::int64_t item = static_cast<std::int64_t>(plan_.place(tile)) * batch.view.layout.shape.heads + kv_head;
  std::byte* base =
      partials_.as<std::byte>() + static_cast<size_t>(item * std::ssize(plan_.splits()) + split) * part_bytes;
  return {reinterpret_cast<float*>(base), reinterpret_cast<SoftmaxState*>(base + o_bytes), stride};
}

void Attention::compute_unit(const AttentionBatch& batch, const SplitUnit& unit, int kv_head, std::byte* base,
                             const Room& room) const {
  const std::span<const int> tiles{plan_.order().data() + unit.first, static_cast<size_t>(unit.count)};
  const AttendTask task = task_of(batch, tiles, kv_head, reinterpret_cast<float*>(base + room.q));
  const AttendScratch scratch = scratch_of(base, room);
  const std::int64_t split = plan_.splits()[static_cast<size_t>(unit.split)];
  if (unit.count == 1) {
    return this->split(task, split, scratch, part_at(batch, tiles[0], kv_head, unit.split, room.stride));
  }
  const PartialRows all{reinterpret_cast<float*>(base + room.part),
                        reinterpret_cast<SoftmaxState*>(base + room.states), room.stride};
  this->split(task, split, scratch, all);
  int row = 0;
  for (const int t : tiles) {
    const int rows = plan_.tiles()[static_cast<size_t>(t)].rows();
    const PartialRows part = part_at(batch, t, kv_head, unit.split, room.stride);
    std::copy_n(all.o + row * room.stride, rows * room.stride, part.o);
    std::copy_n(all.state + row, rows, part.state);
    row += rows;
  }
}

void Attention::merge_tile(const AttentionBatch& batch, int tile, int kv_head, int stride, Matrix out) const {
  const QueryTile& queries = plan_.tiles()[static_cast<size_t>(tile)];
  PartialRows sums;
  for (int i = 0; i < static_cast<int>(plan_.splits().size()); ++i) {
    if (!AttentionPlan::sees(batch, queries, plan_.splits()[static_cast<size_t>(i)])) continue;
    const PartialRows part = part_at(batch, tile, kv_head, i, stride);
    if (sums.o == nullptr) {
      sums = part;
    } else {
      kernels_.merge(sums, part, queries.rows());
    }
  }
  finish(batch, queries, kv_head, sums, out);
}

void Attention::finish(const AttentionBatch& batch, const QueryTile& tile, int kv_head, PartialRows sums,
                       Matrix out) const {
  const int v_dim = batch.view.layout.shape.v_dim;
  const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  const int first_row = batch.sequences[static_cast<size_t>(tile.sequence)].first_row + tile.first_token;
  for (int row = 0; row < tile.rows(); ++row) {
    const int head = kv_head * heads_per_kv + tile.first_head + row % tile.heads;
    const int at = first_row + row / tile.heads;
    float* to = out.row(at) + static_cast<std::ptrdiff_t>(head) * v_dim;
    PartialRows one = sums;
    if (sums.o != nullptr)
      one = {sums.o + static_cast<std::ptrdiff_t>(row) * sums.stride, sums.state + row, sums.stride};
    const SoftmaxState state = finish_row(batch, head, one, to);
    if (batch.states != nullptr) batch.states[static_cast<std::ptrdiff_t>(at) * batch.heads + head] = state;
  }
}

// A row's output, and what it is a mean of: here the sink logit counts, behind all keys of the call.
SoftmaxState Attention::finish_row(const AttentionBatch& batch, int head, PartialRows row, float* to) const {
  const KvLayout& layout = batch.view.layout;
  const int v_dim = layout.shape.v_dim;
  const SoftmaxState seen = row.o == nullptr ? SoftmaxState{} : *row.state;
  if (seen.empty()) {
    std::fill_n(to, v_dim, 0.0F);
  } else if (layout.shape.has_v()) {
    kernels_.finish(row, 0, v_dim, to);
    turn(layout.v_format, to, v_dim);
  } else {
    kernels_.finish(row, 0, mixed_dim(layout), row.o);
    finish_mixed(layout, row.o, to);
  }
  if (batch.rule.sink_logits == nullptr) return seen;
  const SoftmaxMerge merged = merge(seen, {batch.rule.sink_logits[head], 1.0F});
  const float share = seen.d * merged.first_scale / merged.state.d;
  for (int i = 0; i < v_dim; ++i) to[i] *= share;
  return merged.state;
}

}  // namespace kvasir::cpu
