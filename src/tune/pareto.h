// The best choices for every size, where costs add up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvasir {

// One way to keep a part: what it takes, and the harm it does.
struct PartChoice {
  std::int64_t bytes = 0;
  double harm = 0;
};

// A choice for every part.
struct Selection {
  std::int64_t bytes = 0;
  double harm = 0;
  std::vector<std::uint8_t> choices;  // by part

  friend bool operator==(const Selection&, const Selection&) = default;
};

// For each size, the `deep` selections of exactly that many bytes that do the least harm: the least first, sizes
// ascending. Exact, and the same for the same input: of equals the smaller choices come first. Work grows with parts
// times sizes times deep. REQUIRES: every part has 1 to 255 choices.
std::vector<Selection> best_selections(std::span<const std::vector<PartChoice>> parts, int deep);

// Of those, the ones that no smaller or equal one is as good as: sizes ascend and harm falls.
std::vector<Selection> pareto_front(std::span<const Selection> selections);

}  // namespace kvasir
