#include "backend/cpu/cpu_attention.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir::cpu {
namespace {

constexpr size_t kLine = 64;

size_t padded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

int rounded_to_lanes(int n) { return (n + kLanes - 1) / kLanes * kLanes; }

AttendScratch scratch_at(std::byte* base, size_t scores, size_t keys, size_t values) {
  return {reinterpret_cast<float*>(base + scores), base + keys, reinterpret_cast<float*>(base + values)};
}

}  // namespace

void Attention::run(const AttentionBatch& batch, Matrix out) {
  CHECK(batch.heads % batch.view.layout.shape.heads == 0);
  list_items(batch);
  if (items_.empty()) return;
  const Room room = room_for(batch);
  const size_t bytes = room.total * static_cast<size_t>(pool_.threads());
  if (scratch_.bytes() < bytes) scratch_ = allocate_host(bytes);
  // With few tiles the splits of a long context are what threads can share. Either way each split is computed alone
  // and splits merge in order: the bits are the same.
  if (static_cast<int>(items_.size()) < 2 * pool_.threads()) {
    run_spread(batch, room, out);
  } else {
    run_whole(batch, room, out);
  }
}

void Attention::list_items(const AttentionBatch& batch) {
  items_.clear();
  const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  CHECK(heads_per_kv <= kMaxQueryRows);
  const int tile_tokens = kMaxQueryRows / heads_per_kv;
  for (int s = 0; s < static_cast<int>(batch.sequences.size()); ++s) {
    const int rows = batch.sequences[static_cast<size_t>(s)].rows;
    for (int first = 0; first < rows; first += tile_tokens) {
      for (int head = 0; head < batch.view.layout.shape.heads; ++head) {
        items_.push_back({s, head, first, std::min(tile_tokens, rows - first)});
      }
    }
  }
}

Attention::Room Attention::room_for(const AttentionBatch& batch) {
  const KvShape& shape = batch.view.layout.shape;
  Room room{};
  room.stride = rounded_to_lanes(shape.v_dim);
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
  room.q = take(rows * k_dim * sizeof(float));
  room.part = take(rows * stride * sizeof(float));
  room.sums = take(rows * stride * sizeof(float));
  room.states = take(2 * rows * sizeof(SoftmaxState));
  return room;
}

AttendTask Attention::task_of(const AttentionBatch& batch, const Item& item, float* q) const {
  AttendTask task;
  task.view = batch.view;
  task.sequence = batch.sequences[static_cast<size_t>(item.sequence)];
  task.kv_head = item.kv_head;
  task.heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  task.first_token = item.first_token;
  task.tokens = item.tokens;
  task.q = q;
  const int k_dim = batch.view.layout.shape.k_dim;
  for (int t = 0; t < item.tokens; ++t) {
    const float* from = batch.q.row(task.sequence.first_row + item.first_token + t) +
                        static_cast<std::ptrdiff_t>(item.kv_head) * task.heads_per_kv * k_dim;
    for (int i = 0; i < task.heads_per_kv * k_dim; ++i) *q++ = from[i] * batch.scale;
  }
  return task;
}

std::int64_t Attention::splits_of(const AttendTask& task) {
  return task.position_of(task.rows() - 1) / kSplitTokens + 1;
}

// Whether any row of the tile sees anything of the split: with a window most splits of a long context are skipped.
bool Attention::sees(const AttendTask& task, std::int64_t split) const {
  const Position begin = split * kSplitTokens;
  const Position oldest_query = task.position_of(0);
  return task.view.retention.needed(begin, begin + kSplitTokens - 1, oldest_query);
}

void Attention::run_whole(const AttentionBatch& batch, const Room& room, Matrix out) {
  pool_.parallel_for(static_cast<std::int64_t>(items_.size()), [&](std::int64_t i, int thread) {
    std::byte* base = scratch_.as<std::byte>() + static_cast<size_t>(thread) * room.total;
    const Item& item = items_[static_cast<size_t>(i)];
    const AttendTask task = task_of(batch, item, reinterpret_cast<float*>(base + room.q));
    const AttendScratch scratch = scratch_at(base, room.scores, room.keys, room.values);
    auto* states = reinterpret_cast<SoftmaxState*>(base + room.states);
    const PartialRows part{reinterpret_cast<float*>(base + room.part), states, room.stride};
    const PartialRows sums{reinterpret_cast<float*>(base + room.sums), states + kMaxQueryRows, room.stride};
    bool first = true;
    for (std::int64_t split = 0; split < splits_of(task); ++split) {
      if (!sees(task, split)) continue;
      kernels_.split(task, split, scratch, first ? sums : part);
      if (!first) kernels_.merge(sums, part, task.rows());
      first = false;
    }
    finish(batch, item, sums, out);
  });
}

void Attention::run_spread(const AttentionBatch& batch, const Room& room, Matrix out) {
  std::int64_t most_splits = 1;
  for (const Item& item : items_) {
    const SequenceView& sequence = batch.sequences[static_cast<size_t>(item.sequence)];
    const Position last = sequence.start + item.first_token + item.tokens - 1;
    most_splits = std::max(most_splits, last / kSplitTokens + 1);
  }
  const size_t row_bytes = static_cast<size_t>(room.stride) * sizeof(float);
  const size_t o_bytes = kMaxQueryRows * row_bytes;
  const size_t part_bytes = o_bytes + kMaxQueryRows * sizeof(SoftmaxState);
  const auto parts = static_cast<size_t>(most_splits) * items_.size();
  if (partials_.bytes() < parts * part_bytes) partials_ = allocate_host(parts * part_bytes);
  const auto part_at = [&](std::int64_t item, std::int64_t split) {
    std::byte* base = partials_.as<std::byte>() + static_cast<size_t>(item * most_splits + split) * part_bytes;
    return PartialRows{reinterpret_cast<float*>(base), reinterpret_cast<SoftmaxState*>(base + o_bytes), room.stride};
  };
  const auto base_of = [&](int thread) {
    return scratch_.as<std::byte>() + static_cast<size_t>(thread) * room.total;
  };

  const auto items = static_cast<std::int64_t>(items_.size());
  pool_.parallel_for(items * most_splits, [&](std::int64_t i, int thread) {
    std::byte* base = base_of(thread);
    const std::int64_t split = i % most_splits;
    const AttendTask task =
        task_of(batch, items_[static_cast<size_t>(i / most_splits)], reinterpret_cast<float*>(base + room.q));
    if (split >= splits_of(task) || !sees(task, split)) return;
    kernels_.split(task, split, scratch_at(base, room.scores, room.keys, room.values),
                   part_at(i / most_splits, split));
  });
  pool_.parallel_for(items, [&](std::int64_t i, int thread) {
    const Item& item = items_[static_cast<size_t>(i)];
    const AttendTask task = task_of(batch, item, reinterpret_cast<float*>(base_of(thread) + room.q));
    PartialRows sums;
    for (std::int64_t split = 0; split < splits_of(task); ++split) {
      if (!sees(task, split)) continue;
      if (sums.o == nullptr) {
        sums = part_at(i, split);
      } else {
        kernels_.merge(sums, part_at(i, split), task.rows());
      }
    }
    finish(batch, item, sums, out);
  });
}

void Attention::finish(const AttentionBatch& batch, const Item& item, PartialRows sums, Matrix out) const {
  const int v_dim = batch.view.layout.shape.v_dim;
  const int heads_per_kv = batch.heads / batch.view.layout.shape.heads;
  const int first_row = batch.sequences[static_cast<size_t>(item.sequence)].first_row + item.first_token;
  for (int row = 0; row < item.tokens * heads_per_kv; ++row) {
    const int head = item.kv_head * heads_per_kv + row % heads_per_kv;
    kernels_.finish(sums, row, v_dim,
                    out.row(first_row + row / heads_per_kv) + static_cast<std::ptrdiff_t>(head) * v_dim);
  }
}

}  // namespace kvasir::cpu
