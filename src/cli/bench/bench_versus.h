// kvasir bench --versus: decode over caches of several policies, in turns.
//
// What a policy is worth is a ratio, and a machine's memory may change its speed from one minute to the next. So all
// caches are filled first; then each policy answers a few tokens, turn after turn, and the turns' ratios are
// compared.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/engine.h"
#include "model/model.h"

namespace kvasir {

struct VersusTest {
  std::int64_t tokens = 0;  // of each policy in each turn
  std::int64_t depth = 0;   // tokens in the cache before the first
  int turns = 0;
};

struct VersusResult {
  KvPolicy policy;
  VersusTest test;
  std::vector<double> seconds;   // one a turn
  double tokens_per_second = 0;  // from their median
  double against_first = 0;      // how many times as fast as the first policy: the median of the turns' ratios
};

class VersusBench {
 public:
  VersusBench(Backend& backend, Model& model, EngineConfig config)
      : backend_(backend), model_(model), config_(std::move(config)) {}

  // All caches are in memory at once. `filled` is told of each; a first turn is not measured.
  // Throws Error when a policy does not fit the model.
  std::vector<VersusResult> run(std::span<const KvPolicy> policies, const VersusTest& test,
                                const std::function<void()>& filled);

 private:
  EngineConfig config_for(const KvPolicy& policy, const VersusTest& test) const;

  Backend& backend_;
  Model& model_;
  EngineConfig config_;
};

void print_versus(std::span<const VersusResult> results);
nlohmann::ordered_json versus_json(std::span<const VersusResult> results);

}  // namespace kvasir
