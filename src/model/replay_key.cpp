#include "model/replay_key.h"

#include <algorithm>

namespace kvasir {

void ReplayKey::remember(const Batch& batch, const KvStorage& storage, BatchId id, Matrix logits) {
  id_ = kNoBatch;
  if (id == kNoBatch || !batch.ancestors.empty() ||
      !std::ranges::all_of(batch.watches, [](const auto& watches) { return watches.empty(); }))
    return;
  for (size_t group = 0; group < batch.sequences.size(); ++group) {
    if (!batch.sequences[group].empty() && storage.state_format(group) != StateFormat::kF32) return;
  }
  id_ = id;
  rows_ = batch.rows();
  sequences_.clear();
  for (const std::vector<SequenceView>& group : batch.sequences) sequences_.push_back(group.size());
  logit_rows_ = batch.logit_rows;
  layout_generation_ = storage.layout_generation();
  logits_ = logits;
}

bool ReplayKey::matches(const Batch& batch, const KvStorage& storage) const {
  return id_ != kNoBatch && batch.ancestors.empty() && layout_generation_ == storage.layout_generation() &&
         rows_ == batch.rows() &&
         std::ranges::equal(sequences_, batch.sequences, {}, {}, &std::vector<SequenceView>::size) &&
         logit_rows_ == batch.logit_rows &&
         std::ranges::all_of(batch.watches, [](const auto& watches) { return watches.empty(); });
}

}  // namespace kvasir
