#include "engine/batch_builder.h"

#include <algorithm>

namespace kvasir {

int logit_rows_of(const PlannedRows& planned) {
  const Sequence& sequence = *planned.sequence;
  if (planned.drawn >= 0) return 1;
  if (sequence.request.score_from) {
    const Position end = sequence.lease.length() + planned.rows;
    return static_cast<int>(std::clamp<Position>(end - *sequence.request.score_from, 0, planned.rows));
  }
  return planned.rows == sequence.pending() ? 1 : 0;
}

void build_batch(std::span<const PlannedRows> plan, const KvCache& cache, Batch& batch) {
  batch.tokens.clear();
  batch.positions.clear();
  batch.logit_rows.clear();
  batch.sequences.resize(cache.groups());
  for (auto& views : batch.sequences) views.clear();
  batch.watches.resize(cache.groups());
  for (auto& watches : batch.watches) watches.clear();
  for (const PlannedRows& planned : plan) {
    const Sequence& sequence = *planned.sequence;
    const Position start = sequence.lease.length();
    const int first_row = batch.rows();
    for (int i = 0; i < planned.rows; ++i) {
      batch.tokens.push_back(planned.drawn >= 0 ? drawn_token(planned.drawn)
                                                : sequence.tokens[static_cast<size_t>(start + i)]);
      batch.positions.push_back(start + i);
    }
    const std::span<const size_t> groups = cache.groups_of(sequence.lease.policy());
    for (size_t i = 0; i < groups.size(); ++i) {
      std::vector<SequenceView>& views = batch.sequences[groups[i]];
      views.push_back({sequence.lease.table(i).data(), sequence.lease.rows(i), first_row, planned.rows});
      if (!sequence.rows) continue;
      if (const auto watch = sequence.rows->watch(i, start, planned.rows)) {
        batch.watches[groups[i]].push_back(*watch);
        batch.watches[groups[i]].back().sequence = static_cast<int>(views.size()) - 1;
      }
    }
    for (int row = batch.rows() - logit_rows_of(planned); row < batch.rows(); ++row) batch.logit_rows.push_back(row);
  }
}

}  // namespace kvasir
