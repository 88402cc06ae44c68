// What each cached row gets of some queries' attention, with the kernels of attention itself: scores and weights of a
// split, whose sums are then brought to one measure. A row's sum grows in the order of the queries, whoever asks for
// how many of them at once.
#include <algorithm>
#include <cmath>

#include "backend/cpu/attention_split.h"
#include "backend/cpu/cpu_attention.h"
#include "base/check.h"

namespace kvasir::cpu {

void Attention::watch(const AttentionBatch& batch, const AttentionWatch& watch) {
  const SequenceView& sequence = batch.sequences[static_cast<size_t>(watch.sequence)];
  const int kv_heads = batch.view.layout.shape.heads;
  CHECK(sequence.ancestors == nullptr && batch.rule.mask == ScoreRule::Mask::kCausal);
  const Position end = sequence.start + sequence.rows;
  const std::int64_t splits = (end + kSplitTokens - 1) / kSplitTokens;
  // The weights of a tile in all splits, and the splits' states, lie behind a thread's own room.
  const Room room = room_for(batch);
  const size_t behind =
      static_cast<size_t>(splits * kMaxQueryRows) * (kSplitTokens * sizeof(float) + sizeof(SoftmaxState));
  const size_t bytes = (room.total + behind) * static_cast<size_t>(pool_.threads());
  if (scratch_.bytes() < bytes) scratch_ = allocate_host(bytes);
  pool_.parallel_for(kv_heads, [&](std::int64_t kv_head, int thread) {
    std::byte* base = scratch_.as<std::byte>() + static_cast<size_t>(thread) * (room.total + behind);
    AttentionPlan::each_tile(batch, watch.sequence, watch.first, [&](const QueryTile& tile) {
      watch_tile(batch, watch, tile, static_cast<int>(kv_head), base);
    });
  });
}

void Attention::watch_tile(const AttentionBatch& batch, const AttentionWatch& watch, const QueryTile& tile,
                           int kv_head, std::byte* base) const {
  const Room room = room_for(batch);
  const AttendTask task = task_of(batch, {&tile, 1}, kv_head, reinterpret_cast<float*>(base + room.q));
  const std::int64_t splits = task.positions[task.rows - 1] / kSplitTokens + 1;
  auto* weights = reinterpret_cast<float*>(base + room.total);  // [splits][kMaxQueryRows][kSplitTokens]
  auto* states = reinterpret_cast<SoftmaxState*>(weights + splits * kMaxQueryRows * kSplitTokens);
  for (std::int64_t split = 0; split < splits; ++split) {
    AttendScratch scratch = scratch_of(base, room);
    scratch.scores = weights + split * kMaxQueryRows * kSplitTokens;
    const PartialRows part{nullptr, states + split * kMaxQueryRows, room.stride};
    weigh(task, split, scratch, part);
  }
  float* scores = watch.scores + watch.stride * kv_head;
  for (int row = 0; row < task.rows; ++row) {
    SoftmaxState whole;
    for (std::int64_t split = 0; split < splits; ++split) {
      whole = merge(whole, states[split * kMaxQueryRows + row]).state;
    }
    if (batch.rule.sink_logits != nullptr)
      whole = merge(whole, {batch.rule.sink_logits[task.heads[row]], 1.0F}).state;
    const Position query = task.positions[row];
    const auto position = static_cast<float>(watch.position + query - task.sequence.start - watch.first);
    const float equal = 1.0F / static_cast<float>(query + 1);
    for (std::int64_t split = 0; split * kSplitTokens <= query; ++split) {
      const SoftmaxState& state = states[split * kMaxQueryRows + row];
      if (state.empty()) continue;
      const float factor = std::exp(state.m - whole.m) / whole.d;
      const float* shares = weights + (split * kMaxQueryRows + row) * kSplitTokens;
      float* to = scores + split * kSplitTokens;
      const Position seen = std::min<Position>(query + 1 - split * kSplitTokens, kSplitTokens);
      if (watch.note == AttentionWatch::Note::kShares) {
        for (Position i = 0; i < seen; ++i) to[i] += shares[i] * factor;
      } else {
        for (Position i = 0; i < seen; ++i) to[i] = shares[i] * factor > equal ? position : to[i];
      }
    }
    if (watch.note == AttentionWatch::Note::kLastQuery) scores[query] = position;
  }
}

}  // namespace kvasir::cpu
