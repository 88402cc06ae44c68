// From a plan to the ragged batch a model runs.
#pragma once

#include <span>

#include "engine/scheduler.h"
#include "model/batch.h"

namespace kvasir {

// How many of the planned rows, the last ones, get logits: the sequence's newest token, and those that are scored.
int logit_rows_of(const PlannedRows& planned);

// Fills `batch` in place, reusing its memory.
void build_batch(std::span<const PlannedRows> plan, const KvCache& cache, Batch& batch);

}  // namespace kvasir
