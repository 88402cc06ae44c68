// From a plan to the ragged batch a model runs.
#pragma once

#include <span>

#include "engine/scheduler.h"
#include "model/batch.h"

namespace kvasir {

// Fills `batch` in place, reusing its memory. A sequence whose last token is among its rows gets logits.
void build_batch(std::span<const PlannedRows> plan, size_t groups, Batch& batch);

}  // namespace kvasir
