// What a drafter's pass runs: rows of several sequences, each in a lease of the drafter's own.
#pragma once

#include <span>

#include "backend/kv_storage.h"
#include "base/ids.h"
#include "kv/cache.h"
#include "kv/lease.h"
#include "model/batch.h"

namespace kvasir {

struct PassRows {
  const KvLease* lease = nullptr;  // has room for them
  std::span<const TokenId> tokens{};
  Position start = 0;    // the first of them
  bool guesses = false;  // the last one's logits are wanted
};

// Fills `batch` in place, and copies the blocks that the rows are written into a copy of. All leases are of one
// policy.
void build_draft_batch(std::span<const PassRows> rows, KvCache& cache, KvStorage& storage, Batch& batch);

}  // namespace kvasir
