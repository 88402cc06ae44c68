// Directions for a model's K and V, calibrated by letting it read a text: what `kvasir tune --rank` writes.
#pragma once

#include <functional>

#include "eval/windows.h"
#include "model/model.h"
#include "tune/rank_recorder.h"

namespace kvasir {

// `model` was loaded with `recorder`. Reads all windows over a cache in f32, and tells how many it has read. The same
// windows give the same basis, whatever the threads.
KvBasis tune_rank(RankRecorder& recorder, Model& model, const TextWindows& windows,
                  const std::function<void(std::int64_t done)>& progress);

}  // namespace kvasir
