// Biases of scores by distance, as models have them, in the form that attention takes (PositionBias).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/spec.h"

namespace kvasir {

// One a head: 2^(-8 i / heads), and for numbers of heads that are no power of two those of the next one between them.
std::vector<float> alibi_slopes(int heads);

// T5's bucket of a distance, key - query: small ones have their own, larger ones share them by their logarithm.
int bucket_of(const PositionBiasSpec& spec, std::int64_t distance);

// A learned table [buckets][heads] laid out by distance: [heads][before + 1 + after], as PositionBias::table.
std::vector<float> bias_by_distance(const PositionBiasSpec& spec, std::span<const float> by_bucket, int heads);

// Of kNear: [heads][distances], 0 within the window and what no score outweighs at both ends, which stand for all
// that is further away.
std::vector<float> bias_of_window(const PositionBiasSpec& spec, int heads);

}  // namespace kvasir
