#include "grammar/plain_runs.h"

#include <vector>

namespace kvasir::grammar {
namespace {

// The one state that all bytes from low to high lead to, or kNoState.
StateId common_target(const Grammar::Parts& parts, StateId state, std::uint8_t low, std::uint8_t high) {
  if (state == kNoState) return kNoState;
  for (std::uint32_t e = parts.states[state].first_edge; e < parts.states[state + 1].first_edge; ++e) {
    const ByteEdge& edge = parts.edges[e];
    if (edge.low <= low && high <= edge.high) return edge.target;
  }
  return kNoState;
}

StateId after_tails(const Grammar::Parts& parts, StateId state, int count) {
  for (; count > 0; --count) state = common_target(parts, state, 0x80, 0xBF);
  return state;
}

// Where every plain character leads, or kNoState when not all lead to one state. The byte ranges are those of
// well-formed UTF-8.
StateId after_plain_character(const Grammar::Parts& parts, StateId state) {
  const StateId target = common_target(parts, state, 0x20, 0x21);
  if (target == kNoState) return kNoState;
  const auto second = [&](std::uint8_t lead, std::uint8_t low, std::uint8_t high) {
    return common_target(parts, common_target(parts, state, lead, lead), low, high);
  };
  const bool all_alike = common_target(parts, state, 0x23, 0x5B) == target &&
                         common_target(parts, state, 0x5D, 0x7F) == target &&
                         after_tails(parts, common_target(parts, state, 0xC2, 0xDF), 1) == target &&
                         after_tails(parts, second(0xE0, 0xA0, 0xBF), 1) == target &&
                         after_tails(parts, common_target(parts, state, 0xE1, 0xEC), 2) == target &&
                         after_tails(parts, second(0xED, 0x80, 0x9F), 1) == target &&
                         after_tails(parts, common_target(parts, state, 0xEE, 0xEF), 2) == target &&
                         after_tails(parts, second(0xF0, 0x90, 0xBF), 2) == target &&
                         after_tails(parts, common_target(parts, state, 0xF1, 0xF3), 3) == target &&
                         after_tails(parts, second(0xF4, 0x80, 0x8F), 2) == target;
  return all_alike ? target : kNoState;
}

}  // namespace

void find_plain_runs(Grammar::Parts& parts) {
  constexpr std::uint32_t kUnknown = kUnbounded - 1;
  constexpr std::uint32_t kOnPath = kUnbounded - 2;
  const std::size_t count = parts.states.size() - 1;
  for (std::size_t i = 0; i < count; ++i) parts.states[i].plain_run = kUnknown;
  std::vector<StateId> path;
  for (StateId first = 0; first < count; ++first) {
    path.clear();
    StateId at = first;
    while (at != kNoState && parts.states[at].plain_run == kUnknown) {
      parts.states[at].plain_run = kOnPath;
      path.push_back(at);
      at = after_plain_character(parts, at);
    }
    // Past the path's end: nothing; a state known already; or the path itself, round which any text goes on forever.
    std::uint32_t run = 0;
    if (at != kNoState) {
      run = parts.states[at].plain_run == kOnPath ? kUnbounded : parts.states[at].plain_run;
      if (run != kUnbounded) ++run;
    }
    for (; !path.empty(); path.pop_back()) {
      parts.states[path.back()].plain_run = run;
      if (run != kUnbounded) ++run;
    }
  }
}

}  // namespace kvasir::grammar
