// From a step's schedule to the ragged batch a model runs.
#pragma once

#include <span>

#include "engine/schedule/scheduler.h"
#include "model/batch.h"

namespace kvasir {

// How many of the rows, the last ones, get logits: the sequence's newest token, its draft, and those that are scored.
int logit_rows_of(const ScheduledTokens& one);

// Fills `batch` in place, reusing its memory.
void build_batch(std::span<const ScheduledTokens> scheduled, const KvCache& cache, Batch& batch);

}  // namespace kvasir
