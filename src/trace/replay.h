// A trace asked again of an engine that computes nothing: the real scheduler, the real cache, and a clock that goes
// as fast as they decide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "model/spec.h"
#include "trace/request_trace.h"

namespace kvasir {

// What became of the requests of a trace, as a replay foretells it or as it was recorded. In the order of the trace.
struct RequestOutcomes {
  std::int64_t requests = 0;       // that were answered, or cancelled by whoever asked
  std::int64_t refused = 0;        // that can never fit
  std::int64_t prompt_tokens = 0;  // of requests that began
  std::int64_t reused_tokens = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t answer_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t waits = 0;
  double seconds = 0;                       // from the first request to the end of the last
  std::vector<double> queue_seconds;        // ascending
  std::vector<double> first_token_seconds;  // ascending, of those that had a token

  double hit_rate() const {
    return prompt_tokens == 0 ? 0 : static_cast<double>(reused_tokens) / static_cast<double>(prompt_tokens);
  }
};

// The least value that so many of the ascending ones do not exceed: 0.5 is the median. 0 of none.
double quantile(const std::vector<double>& ascending, double share);

struct ReplayPlan {
  ModelSpec spec;
  EngineConfig engine;  // kv_bytes is set
  StepCosts costs;      // not empty
  TraceConfig::Samples samples = TraceConfig::Samples::kOnHost;
  double rate = 1;  // requests come so many times as fast
};

struct Replayed {
  RequestOutcomes foretold;
  SchedulerCounts scheduler;
  std::int64_t evicted_blocks = 0;
  std::int64_t steps = 0;
  std::uint64_t pool_bytes = 0;
};

// Throws Error when the engine cannot be made: memory that does not hold a block, a policy that is not the model's.
Replayed replay(const RequestTrace& trace, const ReplayPlan& plan);

// What the trace says that happened. Nothing, where it says nothing of some of its requests.
std::optional<RequestOutcomes> measured_outcomes(const RequestTrace& trace);

}  // namespace kvasir
