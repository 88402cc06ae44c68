// The first steps of an engine are slow: kernels are chosen and graphs are made when a batch first comes. This lets
// them be taken before anybody waits for one.
#pragma once

#include <span>

#include "engine/engine.h"

namespace kvasir {

// Generates a few tokens in batches of each of these sizes. Nothing of it is left in the cache or counted as a
// client's. Requires an idle engine.
void warm_up(Engine& engine, std::span<const int> batch_sizes);

}  // namespace kvasir
