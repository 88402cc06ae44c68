// What decided the ops of a model's last batch: another one of which all this is true needs the same, and the backend
// may know them still (Backend::replay_batch).
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "model/batch.h"

namespace kvasir {

class ReplayKey {
 public:
  void forget() { id_ = kNoBatch; }
  // Not where attention is watched: scores have other places each time. Nor where states are rounded, which is an op
  // of some steps alone. Nor of draft trees, whose rows see others each time.
  void remember(const Batch& batch, const KvStorage& storage, BatchId id, Matrix logits);
  bool matches(const Batch& batch, const KvStorage& storage) const;

  BatchId id() const { return id_; }
  Matrix logits() const { return logits_; }

 private:
  BatchId id_ = kNoBatch;
  int rows_ = 0;
  std::vector<size_t> sequences_;  // by cache group
  std::vector<int> logit_rows_;
  std::shared_ptr<const void> layout_generation_;  // of the storage
  Matrix logits_;
};

}  // namespace kvasir
