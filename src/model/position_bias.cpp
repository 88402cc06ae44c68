#include "model/position_bias.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvasir {

std::vector<float> alibi_slopes(int heads) {
  int power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<float> slopes;
  for (int i = 1; i <= power; ++i) slopes.push_back(static_cast<float>(std::exp2(-8.0 * i / power)));
  for (int i = 1; std::ssize(slopes) < heads; i += 2) {
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * i / (2 * power))));
  }
  return slopes;
}

// In float, as T5's own code computes it: a distance on the border of two buckets must fall where it fell in
// training.
int bucket_of(const PositionBiasSpec& spec, std::int64_t distance) {
  const bool both = spec.reach == PositionBiasSpec::Reach::kBothWays;
  const int buckets = both ? spec.buckets / 2 : spec.buckets;
  const int first = both && distance > 0 ? buckets : 0;
  const std::int64_t away = both ? std::abs(distance) : std::max<std::int64_t>(-distance, 0);
  const int exact = buckets / 2;
  if (away < exact) return first + static_cast<int>(away);
  const auto all = static_cast<float>(std::log(static_cast<double>(spec.most_distance) / exact));
  const float share = std::log(static_cast<float>(away) / static_cast<float>(exact)) / all;
  return first + std::min(exact + static_cast<int>(share * static_cast<float>(buckets - exact)), buckets - 1);
}

std::vector<float> bias_by_distance(const PositionBiasSpec& spec, std::span<const float> by_bucket, int heads) {
  CHECK(std::ssize(by_bucket) == static_cast<std::int64_t>(spec.buckets) * heads);
  std::vector<float> out;
  for (int head = 0; head < heads; ++head) {
    for (int distance = -spec.before(); distance <= spec.after(); ++distance) {
      out.push_back(by_bucket[static_cast<size_t>(bucket_of(spec, distance) * heads + head)]);
    }
  }
  return out;
}

// Finite: where a row's first keys are all out of sight, the largest of their scores is taken from each.
std::vector<float> bias_of_window(const PositionBiasSpec& spec, int heads) {
  constexpr float kOutOfSight = -1e30F;
  std::vector<float> out;
  for (int head = 0; head < heads; ++head) {
    for (int distance = -spec.before(); distance <= spec.after(); ++distance) {
      out.push_back(std::abs(distance) > spec.most_distance ? kOutOfSight : 0.0F);
    }
  }
  return out;
}

}  // namespace kvasir
