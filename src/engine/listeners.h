// Who listens to an engine, but for the requests' own listeners. All are called on the engine's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "engine/request.h"

namespace kvasir {

struct Sequence;

// A step that was carried out.
struct StepTime {
  int rows = 0;
  int samples = 0;        // of them were sampled from
  std::int64_t keys = 0;  // that they looked at, each all before it and itself, whatever a window leaves of that
  double seconds = 0;     // since the step before, or since it began where there was nothing to do
};

// Sees every row of logits before it is sampled from, and those of prompts that are scored: for evaluation, and for
// the tests of the laws. `position` is that of the token they foretell.
using OnLogits = std::function<void(RequestId id, Position position, std::span<const float> logits)>;
// Every preemption, when it is decided.
using OnPreemption = std::function<void(const std::string& request, const Preemption& preemption)>;
// Every client's request that ended by itself.
using OnFinished = std::function<void(const FinishedSequence& finished)>;
// Every client's request that is over, however it ended; it goes when this returns.
using OnEnd = std::function<void(const Sequence& sequence)>;
using OnStep = std::function<void(const StepTime& step)>;

struct EngineListeners {
  OnLogits on_logits;
  OnPreemption on_preemption;
  OnFinished on_finished;
  OnEnd on_end;
  OnStep on_step;
};

}  // namespace kvasir
