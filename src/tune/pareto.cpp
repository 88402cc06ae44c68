#include "tune/pareto.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace kvasir {

// Part after part: what is best of the parts so far for each size is all that the next needs to know.
std::vector<Selection> best_selections(std::span<const std::vector<PartChoice>> parts, int deep) {
  std::vector<Selection> best(1);
  for (const std::vector<PartChoice>& part : parts) {
    CHECK(!part.empty() && part.size() < 256);
    std::vector<Selection> longer;
    longer.reserve(best.size() * part.size());
    for (const Selection& so_far : best) {
      for (size_t i = 0; i < part.size(); ++i) {
        Selection& next = longer.emplace_back(so_far);
        next.bytes += part[i].bytes;
        next.harm += part[i].harm;
        next.choices.push_back(static_cast<std::uint8_t>(i));
      }
    }
    const auto order = [](const Selection& one) { return std::tie(one.bytes, one.harm, one.choices); };
    std::ranges::sort(longer, {}, order);
    best.clear();
    int rank = 0;
    for (Selection& one : longer) {
      rank = !best.empty() && best.back().bytes == one.bytes ? rank + 1 : 0;
      if (rank < deep) {
        best.push_back(std::move(one));
      } else {
        rank = deep;
      }
    }
  }
  return best;
}

std::vector<Selection> pareto_front(std::span<const Selection> selections) {
  std::vector<Selection> front;
  double least = std::numeric_limits<double>::infinity();
  for (const Selection& one : selections) {
    if (one.harm >= least) continue;
    least = one.harm;
    front.push_back(one);
  }
  return front;
}

}  // namespace kvasir
