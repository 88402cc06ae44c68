// A step whose tokens the backend draws, from its launch until they are taken.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "engine/sequence.h"

namespace kvasir {

// The sequences of the plan run as long as it flies, but for those that were forgotten.
struct Flight {
  struct Rows {
    Sequence* sequence = nullptr;  // null: it ended meanwhile, and nobody wants what is drawn
    int rows = 0;
    int draw = -1;  // its row of the draw; -1: the sequence is not caught up
  };

  DrawTicket ticket = kNoDraw;
  std::vector<Rows> plan;
  int rows = 0;               // of the batch
  int draws = 0;              // rows that are drawn from
  double began = 0;           // seconds, by the engine's clock
  bool committed = false;     // its rows belong to the cache already
  bool in_formation = false;  // its rows are the formation's, one each

  bool in_the_air() const { return ticket != kNoDraw; }
  std::int64_t sequences() const {  // that are wanted
    return std::ranges::count_if(plan, [](const Rows& one) { return one.sequence != nullptr; });
  }
  bool forget(const Sequence& sequence) {  // false: it was not in it
    const auto found = std::ranges::find(plan, &sequence, &Rows::sequence);
    if (found == plan.end()) return false;
    found->sequence = nullptr;
    return true;
  }
};

}  // namespace kvasir
