#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvasir::grammar {
namespace {

// Below this many edges a scan is faster than a search by halves.
constexpr std::size_t kFewEdges = 8;

}  // namespace

Grammar::Grammar(Parts parts) : parts_(std::move(parts)) {
  parts_.edges.shrink_to_fit();
  parts_.calls.shrink_to_fit();
  parts_.starts.shrink_to_fit();
  CHECK(!parts_.states.empty() && parts_.root < parts_.starts.size());
  has_sets_ = std::ranges::any_of(parts_.states, [](const State& state) { return state.role != Role::kNone; });
}

StateId Grammar::next(StateId state, std::uint8_t byte) const {
  const std::span<const ByteEdge> edges = edges_of(state);
  if (edges.size() <= kFewEdges) {
    for (const ByteEdge& edge : edges) {
      if (byte <= edge.high) return byte >= edge.low ? edge.target : kNoState;
    }
    return kNoState;
  }
  const auto found = std::ranges::lower_bound(edges, byte, {}, &ByteEdge::high);
  return found != edges.end() && byte >= found->low ? found->target : kNoState;
}

std::size_t Grammar::bytes() const {
  return parts_.states.capacity() * sizeof(State) + parts_.edges.capacity() * sizeof(ByteEdge) +
         parts_.calls.capacity() * sizeof(RuleCall) + parts_.starts.capacity() * sizeof(StateId) + sizeof(Grammar);
}

}  // namespace kvasir::grammar
