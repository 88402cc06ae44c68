// A grammar, compiled: a pushdown automaton over bytes. Constant once built, so that threads and requests share it.
//
// Every rule is a deterministic automaton. Its states have edges on byte ranges, and calls: "here a text of rule R
// may stand, and after it the state is S". A state may have several calls, and both calls and edges: which of them
// holds is found out by following all (matcher.h). What GrammarBuilder guarantees, and the matcher relies on:
//   - a rule matches no empty text, and never begins by calling itself, directly or through others;
//   - from every state there is a way to the end of its rule: whoever follows the automaton never gets stuck.
//
// An array that must not have an element twice, a set, calls rules that hold one element each. Where such a rule
// begins and ends is marked: what a set has by then is known to the matcher alone (open_sets.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace kvasir::grammar {

using RuleId = std::uint32_t;
using StateId = std::uint32_t;

inline constexpr StateId kNoState = std::numeric_limits<StateId>::max();
inline constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();

struct ByteEdge {
  std::uint8_t low = 0;
  std::uint8_t high = 0;  // inclusive
  StateId target = kNoState;
};

struct RuleCall {
  RuleId rule = 0;
  StateId after = kNoState;
};

class Grammar {
 public:
  enum class Role : std::uint8_t { kNone, kElementStart, kElementEnd };  // of a set

  struct State {
    std::uint32_t first_edge = 0;  // sorted by byte, not overlapping; they end where the next state's begin
    std::uint32_t first_call = 0;  // sorted by rule
    // Any text of at most this many characters that a JSON string may hold unescaped (plain characters: not '"', '\',
    // nor below U+0020) can follow.
    std::uint32_t plain_run = 0;
    bool is_final = false;  // the rule may end here
    Role role = Role::kNone;
  };

  struct Parts {
    std::vector<State> states;  // one more than there are: the last closes the edges and calls of the one before
    std::vector<ByteEdge> edges;
    std::vector<RuleCall> calls;
    std::vector<StateId> starts;  // of each rule
    RuleId root = 0;
  };

  explicit Grammar(Parts parts);

  // kNoState: no text comes to the rule.
  StateId start_of(RuleId rule) const { return parts_.starts[rule]; }
  RuleId root() const { return parts_.root; }
  bool is_final(StateId state) const { return parts_.states[state].is_final; }
  Role role(StateId state) const { return parts_.states[state].role; }
  bool has_sets() const { return has_sets_; }
  std::uint32_t plain_run(StateId state) const { return parts_.states[state].plain_run; }

  std::span<const ByteEdge> edges_of(StateId state) const {
    const std::uint32_t first = parts_.states[state].first_edge;
    return {parts_.edges.data() + first, parts_.states[state + 1].first_edge - first};
  }
  std::span<const RuleCall> calls_of(StateId state) const {
    const std::uint32_t first = parts_.states[state].first_call;
    return {parts_.calls.data() + first, parts_.states[state + 1].first_call - first};
  }

  // Where `byte` leads, or kNoState.
  StateId next(StateId state, std::uint8_t byte) const;

  std::size_t state_count() const { return parts_.states.size() - 1; }
  std::size_t bytes() const;  // of memory, for bounded caches

 private:
  Parts parts_;
  bool has_sets_ = false;
};

}  // namespace kvasir::grammar
