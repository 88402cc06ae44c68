// From built rules to deterministic ones: the subset construction, with rules called taken as letters of their own.
#pragma once

#include <vector>

#include "grammar/builder.h"
#include "grammar/grammar.h"

namespace kvasir::grammar {

struct RuleState {
  std::vector<ByteEdge> edges;  // sorted, not overlapping; targets count within the rule
  std::vector<RuleCall> calls;  // sorted by rule, each once
  bool is_final = false;
  Grammar::Role role = Grammar::Role::kNone;
};

struct RuleAutomaton {
  std::vector<RuleState> states;  // the first is the start
};

// One automaton for every rule. Throws Error when they exceed the builder's limits.
std::vector<RuleAutomaton> determinize(const GrammarBuilder& builder);

}  // namespace kvasir::grammar
