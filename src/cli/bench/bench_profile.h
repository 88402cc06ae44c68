// kvasir bench --profile: where the time of a decode step goes.
#pragma once

#include <cstdint>
#include <string>

#include "backend/profile_backend.h"
#include "engine/engine.h"
#include "model/model.h"

namespace kvasir {

struct StepProfile {
  std::int64_t steps = 0;
  double seconds = 0;          // of all steps
  std::vector<OpProfile> ops;  // of all steps
};

// `tokens` decode steps of one sequence behind `depth` tokens. The model was loaded through `backend`.
StepProfile profile_decode(ProfileBackend& backend, Model& model, const EngineConfig& config, std::int64_t depth,
                           std::int64_t tokens);

// A table: op, calls and time a step, share of the step, bytes a step, GB/s, share of what the machine reads.
void print_profile(const StepProfile& profile, double read_bytes_per_second);
std::string profile_json(const StepProfile& profile, double read_bytes_per_second);

}  // namespace kvasir
