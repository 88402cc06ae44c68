#include "engine/draft/pass_costs.h"

#include <algorithm>
#include <bit>

namespace kvasir {

// 1 to 8 by themselves, then four sizes to each power of two.
std::size_t PassCosts::size_of(int rows) {
  const auto n = static_cast<unsigned>(std::max(rows, 1) - 1);
  if (n < 8) return n;
  const int power = std::bit_width(n) - 1;  // 3 and on
  const std::size_t quarter = (n >> (power - 2)) & 3U;
  return std::min<std::size_t>(8 + static_cast<std::size_t>(power - 3) * 4 + quarter, kSizes - 1);
}

// A step that was interrupted says little: what is far off counts as twice the average, and moves it all the same.
void PassCosts::measure(int rows, double seconds) {
  constexpr int kMemory = 10;
  Average& average = of_[size_of(rows)];
  if (average.seen > 0) seconds = std::min(seconds, 2 * average.seconds);
  average.seen = std::min(average.seen + 1, kMemory);
  average.seconds += (seconds - average.seconds) / average.seen;
  average.rows = rows;
  known_ = true;
}

double PassCosts::seconds(int rows) const {
  const std::size_t size = size_of(rows);
  if (of_[size].seen > 0) return of_[size].seconds;
  const Average* below = nullptr;
  const Average* above = nullptr;
  for (std::size_t i = 0; i < kSizes; ++i) {
    if (of_[i].seen == 0) continue;
    if (i < size) below = &of_[i];
    if (i > size && above == nullptr) above = &of_[i];
  }
  if (below != nullptr && above != nullptr) {
    const double part = static_cast<double>(rows - below->rows) / (above->rows - below->rows);
    return below->seconds + part * (above->seconds - below->seconds);
  }
  if (below != nullptr) return below->seconds + (rows - below->rows) * row_seconds_;
  if (above != nullptr) return above->seconds;
  return rows * row_seconds_;
}

}  // namespace kvasir
