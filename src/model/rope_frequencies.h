// The frequencies of rotary positions, with the config's scaling applied.
#pragma once

#include <vector>

#include "model/config.h"

namespace kvasir {

// One for each pair of a head that turns; of a proportional rope, of each pair. REQUIRES: for_context() settled it.
std::vector<double> rope_frequencies(const RopeSpec& rope, int head_dim);

}  // namespace kvasir
