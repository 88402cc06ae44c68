#include "engine/schedule/state_marks.h"

#include <algorithm>

namespace kvasir {
namespace {

constexpr Position kLeastDistance = 512;  // computing fewer tokens again is cheap

}  // namespace

void add_mark(std::vector<Position>& marks, Position mark) {
  const auto place = std::ranges::lower_bound(marks, mark);
  if (place == marks.end() || *place != mark) marks.insert(place, mark);
}

std::vector<Position> states_to_keep(const StateQuestion& q) {
  const auto boundary = [&q](Position position) { return position / q.step * q.step; };
  std::vector<Position> marks;
  int left = q.budget;
  const auto keep = [&](Position position) {
    if (position <= 0 || left <= 0 || std::ranges::find(marks, position) != marks.end()) return;
    add_mark(marks, position);
    --left;
  };
  keep(boundary(q.prompt - 1));
  if (q.tokens > q.prompt) keep(boundary(q.tokens - 1));
  keep(boundary(q.parted));
  const Position distance = std::max<Position>(q.prompt / (left + 1), kLeastDistance);
  for (Position at = distance; left > 0 && at <= q.prompt - distance; at += distance) keep(boundary(at));
  for (const Position mark : states_at_breakpoints(q.breakpoints, q.step)) add_mark(marks, mark);
  return marks;
}

std::vector<Position> states_at_breakpoints(std::span<const Breakpoint> breakpoints, std::int64_t step) {
  std::vector<Position> marks;
  for (const Breakpoint& mark : breakpoints) {
    if (mark.tokens >= step) add_mark(marks, mark.tokens / step * step);
  }
  return marks;
}

}  // namespace kvasir
