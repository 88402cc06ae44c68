// The frequencies of rotary positions, with the config's scaling applied.
#pragma once

#include <vector>

#include "model/config.h"

namespace kvasir {

std::vector<double> rope_frequencies(const RopeSpec& rope, int head_dim);  // head_dim / 2 of them

}  // namespace kvasir
