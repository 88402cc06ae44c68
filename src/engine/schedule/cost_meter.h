// How long steps take, measured: what a CostModel's estimates come from.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "engine/draft/pass_costs.h"
#include "engine/schedule/host_swap.h"
#include "engine/schedule/scheduler.h"

namespace kvasir {

class CostMeter {
 public:
  // What is given outlives this. `fixed`: nothing is measured, this holds.
  CostMeter(const HostSwap& swap, Scheduler& scheduler, const std::optional<CostModel>& fixed)
      : swap_(swap), scheduler_(scheduler), costs_(fixed.value_or(CostModel{})), fixed_(fixed.has_value()) {
    scheduler.set_costs(costs_);
  }

  double now() const {  // seconds, since this was made
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }

  // A step of so many rows, of which so many were sampled from, was given to the backend then, and its tokens came
  // now. It began when the one before ended.
  void measure(int rows, int samples, double began) {
    const double ended = now();
    step_seconds_ = ended - std::max(began, last_ended_);
    if (rows == samples) passes_.measure(rows, step_seconds_ + host_seconds(began));
    last_ended_ = ended;
    drafting_seconds_ = 0;
    if (!fixed_) learn(rows);
  }
  double step_seconds() const { return step_seconds_; }  // of the last one

  // What a step takes in which every row is sampled from, with what the host does between two such steps.
  const PassCosts& passes() const { return passes_; }
  // Before the next step begins: no pass of it.
  void spent_drafting(double seconds) { drafting_seconds_ += seconds; }

 private:
  // Since the step before; a longer time is one in which there was nothing to do.
  double host_seconds(double began) const {
    constexpr double kIdle = 0.01;
    const double gap = began - last_ended_ - drafting_seconds_;
    return gap > 0 && gap < kIdle ? gap : 0;
  }

  // Running averages. The first step says more than no step.
  void learn(int rows) {
    constexpr double kNew = 0.1;
    constexpr int kManyRows = 8;  // fewer say nothing of what a prompt's token costs
    const auto blend = [](double& average, double value, std::int64_t& seen) {
      average = seen++ == 0 ? value : average + kNew * (value - average);
    };
    blend(costs_.step_seconds, step_seconds_, steps_);
    if (rows >= kManyRows) blend(costs_.token_seconds, step_seconds_ / rows, prompts_);
    passes_.set_row_seconds(costs_.token_seconds);
    costs_.swap_bytes_per_second = swap_.bytes_per_second().value_or(costs_.swap_bytes_per_second);
    scheduler_.set_costs(costs_);
  }

  const HostSwap& swap_;
  Scheduler& scheduler_;
  CostModel costs_;
  PassCosts passes_;
  bool fixed_;
  std::int64_t steps_ = 0;
  std::int64_t prompts_ = 0;
  double step_seconds_ = 0;
  double last_ended_ = 0;
  double drafting_seconds_ = 0;  // since then
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace kvasir
