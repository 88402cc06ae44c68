// From the automata of single rules to one Grammar: what leads nowhere is cut off, the rest laid out flat.
#pragma once

#include <optional>
#include <vector>

#include "grammar/determinize.h"
#include "grammar/grammar.h"

namespace kvasir::grammar {

// nullopt when nothing matches the root.
std::optional<Grammar::Parts> assemble(std::vector<RuleAutomaton> automata, RuleId root);

}  // namespace kvasir::grammar
