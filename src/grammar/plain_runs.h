// Grammar::State::plain_run: how many characters of any plain text a state is sure to take. It lets a mask allow most
// of a vocabulary at once inside strings (token_mask.h).
#pragma once

#include "grammar/grammar.h"

namespace kvasir::grammar {

// Fills in plain_run of every state. REQUIRES: all else is in place.
void find_plain_runs(Grammar::Parts& parts);

}  // namespace kvasir::grammar
