#include "model/last_batch.h"

#include <algorithm>

namespace kvasir {

void LastBatch::remember(const Batch& batch, const KvStorage& storage, BatchId id, Matrix logits) {
  id_ = kNoBatch;
  if (id == kNoBatch || !std::ranges::all_of(batch.watches, [](const auto& watches) { return watches.empty(); }))
    return;
  id_ = id;
  rows_ = batch.rows();
  sequences_.clear();
  for (const std::vector<SequenceView>& group : batch.sequences) sequences_.push_back(group.size());
  logit_rows_ = batch.logit_rows;
  arrangement_ = storage.arrangement();
  logits_ = logits;
}

bool LastBatch::needs_the_same_ops(const Batch& batch, const KvStorage& storage) const {
  return id_ != kNoBatch && arrangement_ == storage.arrangement() && rows_ == batch.rows() &&
         std::ranges::equal(sequences_, batch.sequences, {}, {}, &std::vector<SequenceView>::size) &&
         logit_rows_ == batch.logit_rows &&
         std::ranges::all_of(batch.watches, [](const auto& watches) { return watches.empty(); });
}

}  // namespace kvasir
