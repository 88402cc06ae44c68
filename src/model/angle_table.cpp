#include "model/angle_table.h"

#include <algorithm>

#include "backend/rope.h"

namespace kvasir {

void AngleTable::angles(std::span<const Position> positions, float* cos, float* sin) {
  const size_t pairs = count();
  for (size_t i = 0; i < positions.size(); ++i, cos += pairs, sin += pairs) {
    const Position position = positions[i];
    if (position < 0 || position >= kRemembered) {
      rope_angles(positions.subspan(i, 1), frequencies_, cos, sin);
      continue;
    }
    const auto at = static_cast<size_t>(position);
    if (at >= is_known_.size()) {
      is_known_.resize(std::max({at + 1, 2 * is_known_.size(), kAtLeast}));
      known_.resize(is_known_.size() * 2 * pairs);
    }
    float* known = known_.data() + at * 2 * pairs;
    if (!is_known_[at]) {
      rope_angles(positions.subspan(i, 1), frequencies_, known, known + pairs);
      is_known_[at] = true;
    }
    std::copy_n(known, pairs, cos);
    std::copy_n(known + pairs, pairs, sin);
  }
}

}  // namespace kvasir
