#include "backend/rope.h"

#include <cmath>

namespace kvasir {

void rope_angles(std::span<const Position> positions, std::span<const double> frequencies, float* cos, float* sin) {
  for (const Position position : positions) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      *cos++ = static_cast<float>(std::cos(angle));
      *sin++ = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace kvasir
