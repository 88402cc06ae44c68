// When blocks run out: who is preempted, and how. Every candidate's cost is estimated in seconds, and the cheapest
// pauses:
//
//     recompute   its blocks become evictable; those that are taken must be computed again
//     swap        the blocks only it holds go to host memory and come back
//     wait        the one that needs the blocks stalls until another ends
//
// The oldest running sequence neither pauses nor waits, so every step moves somebody towards the end, and everybody
// becomes the oldest in the end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/schedule/host_swap.h"
#include "engine/sequence.h"
#include "kv/cache.h"

namespace kvasir {

// How fast things went lately: the engine measures, the scheduler decides by it. No answer depends on it.
struct CostModel {
  double token_seconds = 1e-3;         // for a prompt's token
  double step_seconds = 1e-2;          // for a step
  double swap_bytes_per_second = 4e9;  // to the host or back
};

struct PreemptionChoice {
  Sequence* who = nullptr;
  Preemption::How how = Preemption::How::kRecompute;
  double seconds = 0;
};

struct PreemptionQuestion {
  const KvCache& cache;
  std::span<const std::unique_ptr<Sequence>> running;
  Sequence& asking;       // who needs blocks
  std::int64_t rows = 0;  // for so many tokens
  const HostSwap* swap;   // null: there is none
  CostModel costs;
};

// The cheapest, or nothing when there is nobody who may pause. A tenant at its own limit pauses only its own, and its
// oldest never; tenants over their guarantee pause before others.
std::optional<PreemptionChoice> choose_preemption(const PreemptionQuestion& question);

}  // namespace kvasir
