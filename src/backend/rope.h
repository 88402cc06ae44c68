// The angles of rotary positions, in double precision: positions may grow past 10^7 and still be exact to a float.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"

namespace kvasir {

// cos and sin of position * frequency for every position and frequency: [positions][frequencies] each.
void rope_angles(std::span<const Position> positions, std::span<const double> frequencies, float* cos, float* sin);

}  // namespace kvasir
