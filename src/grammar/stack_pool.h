// Stacks of the pushdown automaton, shared and each stored once.
//
// A Stack is where a rule returns to when it ends: a set of (state, stack below) pairs, since several callers may be
// waiting for one text. All callers that wait for the same rule from the same byte on share one stack, so their
// number cannot multiply with depth. Equal sets have equal ids; sets are never changed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"

namespace kvasir::grammar {

using StackId = std::uint32_t;

inline constexpr StackId kBottom = 0;  // nobody waits: the end of the rule is the end of the text

struct StackLink {
  StateId after = kNoState;
  StackId below = kBottom;
  std::uint32_t set = 0;  // the depth of the set whose element ends there (open_sets.h); 0: none's

  friend bool operator==(const StackLink&, const StackLink&) = default;
  friend auto operator<=>(const StackLink&, const StackLink&) = default;
};

class StackPool {
 public:
  StackPool();

  // The stack of these links. Throws Error when the pool is full. REQUIRES: sorted, without duplicates, not empty.
  StackId intern(std::span<const StackLink> links);

  std::span<const StackLink> links_of(StackId id) const {
    return {links_.data() + stacks_[id].first, stacks_[id].count};
  }

  // The same for equal stacks of all pools: what caches know a stack by.
  const std::array<std::uint64_t, 2>& digest_of(StackId id) const { return stacks_[id].digest; }

  std::size_t size() const { return stacks_.size(); }

 private:
  struct Stack {
    std::array<std::uint64_t, 2> digest{};
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  std::vector<Stack> stacks_;
  std::vector<StackLink> links_;
  std::unordered_multimap<std::uint64_t, StackId> by_digest_;
};

}  // namespace kvasir::grammar
