// What to do about a plan that does not fit, each with its number.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace kvasir {

// `plan` is of `input`, has a memory size, and does not fit. Those that are enough come first, of these the ones that
// do the least harm; of the others the largest saving. More memory is the last.
std::vector<Suggestion> find_suggestions(const PlanInput& input, const MemoryPlan& plan);

}  // namespace kvasir
