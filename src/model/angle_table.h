// The cosines and sines of positions, remembered: a decode step asks for its neighbours' of the step before, and
// computing them in double precision takes as long as all else that a host does for a step.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"

namespace kvasir {

class AngleTable {
 public:
  explicit AngleTable(std::vector<double> frequencies) : frequencies_(std::move(frequencies)) {}

  size_t count() const { return frequencies_.size(); }

  // cos and sin: [positions][count], the bits of rope_angles().
  void angles(std::span<const Position> positions, float* cos, float* sin);

 private:
  // Beyond it positions are computed whenever they are asked for: endless texts take no memory.
  static constexpr Position kRemembered = 1 << 17;
  static constexpr size_t kAtLeast = 1024;  // of them at once

  std::vector<double> frequencies_;
  std::vector<float> known_;    // [positions][cos, sin][count]
  std::vector<bool> is_known_;  // [positions]
};

}  // namespace kvasir
