// How long steps take, measured: what a CostModel's estimates come from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/time_source.h"
#include "engine/draft/pass_costs.h"
#include "engine/schedule/host_swap.h"
#include "engine/schedule/scheduler.h"

namespace kvasir {

class CostMeter {
 public:
  // What is given outlives this.
  struct Parts {
    const TimeSource& clock;
    const HostSwap& swap;
    Scheduler& scheduler;
  };
  // `fixed`: nothing is measured, this holds.
  CostMeter(const Parts& parts, const std::optional<CostModel>& fixed)
      : p_(parts), costs_(fixed.value_or(CostModel{})), fixed_(fixed.has_value()) {
    p_.scheduler.set_costs(costs_);
  }

  double now() const { return p_.clock.now(); }

  // A step of so many rows, of which so many were sampled from, was given to the backend then, and its tokens came
  // now. It began when the one before ended. What the host did between the two is the one before's: it looked at the
  // logits of that one's rows.
  void measure(int rows, int samples, double began) {
    const double ended = now();
    const double between = host_seconds(began);
    if (last_rows_ > 0) passes_.measure(last_rows_, step_seconds_ + between);
    step_began_ = std::max(began, last_ended_);
    step_seconds_ = ended - step_began_;
    whole_seconds_ = step_seconds_ + between;
    last_rows_ = rows == samples ? rows : 0;
    last_ended_ = ended;
    drafting_seconds_ = 0;
    if (!fixed_) learn(rows);
  }
  double step_seconds() const { return step_seconds_; }    // of the last one
  double whole_seconds() const { return whole_seconds_; }  // with what the host did between it and the one before

  double elapsed_seconds() const { return now() - step_began_; }  // since the last one began

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
    costs_.swap_bytes_per_second = p_.swap.bytes_per_second().value_or(costs_.swap_bytes_per_second);
    p_.scheduler.set_costs(costs_);
  }

  Parts p_;
  CostModel costs_;
  PassCosts passes_;
  bool fixed_;
  std::int64_t steps_ = 0;
  std::int64_t prompts_ = 0;
  int last_rows_ = 0;  // of the last step, if each of them was sampled from
  double step_began_ = 0;
  double step_seconds_ = 0;
  double whole_seconds_ = 0;
  double last_ended_ = 0;
  double drafting_seconds_ = 0;  // since then
};

}  // namespace kvasir
