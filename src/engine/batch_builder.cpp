#include "engine/batch_builder.h"

namespace kvasir {

void build_batch(std::span<const PlannedRows> plan, size_t groups, Batch& batch) {
  batch.tokens.clear();
  batch.positions.clear();
  batch.logit_rows.clear();
  batch.sequences.resize(groups);
  for (auto& views : batch.sequences) views.clear();
  for (const PlannedRows& planned : plan) {
    const Sequence& sequence = *planned.sequence;
    const Position start = sequence.lease.length();
    const int first_row = batch.rows();
    for (int i = 0; i < planned.rows; ++i) {
      batch.tokens.push_back(sequence.tokens[static_cast<size_t>(start + i)]);
      batch.positions.push_back(start + i);
    }
    for (size_t g = 0; g < groups; ++g) {
      batch.sequences[g].push_back({sequence.lease.table(g).data(), start, first_row, planned.rows});
    }
    if (planned.rows == sequence.pending()) batch.logit_rows.push_back(batch.rows() - 1);
  }
}

}  // namespace kvasir
