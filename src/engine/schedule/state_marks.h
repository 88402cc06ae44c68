// Where a request's states are kept, so that others find its text again: a state is large, and stands for one place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/request.h"

namespace kvasir {

struct StateQuestion {
  std::int64_t prompt = 0;                       // tokens
  std::int64_t tokens = 0;                       // known ones: the prompt, and what was answered before a pause
  std::int64_t step = 1;                         // states are kept behind multiples of so many tokens
  int budget = 0;                                // of states, beside those that breakpoints ask for and the answer's
  std::span<const Breakpoint> breakpoints = {};  // of the request
  Position parted = 0;  // up to here another text agrees, and no state was kept; 0: none does
};

// Ascending: multiples of the step. First of all the last one that leaves a token of the prompt to compute, since a
// prompt comes again, whole or with more behind it; then where texts part; then places at even distances, for texts
// that part where none has yet.
std::vector<Position> states_to_keep(const StateQuestion& question);

// Of those, the ones that breakpoints ask for: the text is gone on from there whatever follows.
std::vector<Position> states_at_breakpoints(std::span<const Breakpoint> breakpoints, std::int64_t step);

void add_mark(std::vector<Position>& marks, Position mark);  // which are ascending

}  // namespace kvasir
