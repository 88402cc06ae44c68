// Who listens to an engine, but for the requests' own listeners. All are called on the engine's thread.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "engine/request.h"

namespace kvasir {

// Sees every row of logits before it is sampled from, and those of prompts that are scored: for evaluation, and for
// the tests of the laws. `position` is that of the token they foretell.
using OnLogits = std::function<void(RequestId id, Position position, std::span<const float> logits)>;
// Every preemption, when it is decided.
using OnPreemption = std::function<void(const std::string& request, const Preemption& preemption)>;
// Every client's request that ended by itself.
using OnFinished = std::function<void(const FinishedSequence& finished)>;

struct EngineListeners {
  OnLogits on_logits;
  OnPreemption on_preemption;
  OnFinished on_finished;
};

}  // namespace kvasir
