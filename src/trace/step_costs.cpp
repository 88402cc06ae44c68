#include "trace/step_costs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvasir {
namespace {

// Up to 8 each number is a kind; from there on there are four for each doubling.
int kind_of_rows(double rows) {
  if (rows <= 8) return static_cast<int>(rows);
  return static_cast<int>(std::lround(8 + 4 * std::log2(rows / 8)));
}

// Two for each doubling.
int kind_of_keys(double keys_a_row) { return static_cast<int>(2 * std::log2(std::max(keys_a_row, 1.0))); }

// None, some, or all of the rows: of a prompt's chunk, a mixed step, and one of answers.
int kind_of_samples(double samples_a_row) { return samples_a_row <= 0 ? 0 : samples_a_row < 1 ? 1 : 2; }

struct Mean {
  double rows = 0;
  double keys = 0;
  double samples = 0;
  double seconds = 0;
  double steps = 0;  // of how many
};

Mean mean_of(const StepCostCell& cell) {
  const double steps = static_cast<double>(cell.steps);
  return {cell.rows / steps, cell.keys / steps, cell.samples / steps, cell.seconds / steps, steps};
}

void add_to(StepCostCell& sum, const StepCostCell& cell) {
  sum.steps += cell.steps;
  sum.rows += cell.rows;
  sum.keys += cell.keys;
  sum.samples += cell.samples;
  sum.seconds += cell.seconds;
}

// Least squares of two unknowns, none below zero.
struct Pair {
  double kk = 0, ks = 0, ss = 0;  // products of what is known
  double kt = 0, st = 0;          // … and of that with seconds

  static double ratio(double a, double b) { return b > 0 ? std::max(a / b, 0.0) : 0; }

  std::array<double, 2> solved() const {
    const double determinant = kk * ss - ks * ks;
    if (determinant > 1e-9 * kk * ss) {
      const double key = (kt * ss - st * ks) / determinant;
      const double sample = (st * kk - kt * ks) / determinant;
      if (key >= 0 && sample >= 0) return {key, sample};
    }
    // One alone: the one that explains more.
    if (kt * kt * ss >= st * st * kk) return {ratio(kt, kk), 0};
    return {0, ratio(st, ss)};
  }
};

}  // namespace

void StepCosts::add(const StepCostCell& cell) {
  if (cell.steps <= 0 || cell.rows <= 0) return;
  const Kind kind{kind_of_rows(cell.rows / static_cast<double>(cell.steps)), kind_of_keys(cell.keys / cell.rows),
                  kind_of_samples(cell.samples / cell.rows)};
  add_to(cells_[kind], cell);
}

std::vector<StepCostCell> StepCosts::cells() const {
  std::vector<StepCostCell> out;
  out.reserve(cells_.size());
  for (const auto& [kind, cell] : cells_) out.push_back(cell);
  return out;
}

StepCostModel::StepCostModel(const StepCosts& measured) {
  CHECK(!measured.empty());
  std::map<int, std::vector<StepCostCell>> by_rows;
  for (const StepCostCell& cell : measured.cells()) {
    by_rows[kind_of_rows(cell.rows / static_cast<double>(cell.steps))].push_back(cell);
  }
  std::vector<Mean> means;
  Pair sums;  // over differences from the mean of steps with as many rows, weighted by how much a part of it counts
  for (const auto& [kind, cells] : by_rows) {
    StepCostCell all;
    for (const StepCostCell& cell : cells) add_to(all, cell);
    const Mean mean = means.emplace_back(mean_of(all));
    if (mean.seconds <= 0) continue;
    for (const StepCostCell& cell : cells) {
      const Mean one = mean_of(cell);
      const double weight = static_cast<double>(cell.steps) / (mean.seconds * mean.seconds);
      const double keys = one.keys - mean.keys;
      const double samples = one.samples - mean.samples;
      // Some rows more of the same kind take their part longer.
      const double seconds = one.seconds - mean.seconds * one.rows / mean.rows;
      sums.kk += weight * keys * keys;
      sums.ks += weight * keys * samples;
      sums.ss += weight * samples * samples;
      sums.kt += weight * keys * seconds;
      sums.st += weight * samples * seconds;
    }
  }
  double steps = 0;
  for (const Mean& mean : means) steps += mean.steps;
  const double few = std::min(8.0, steps / 1000);
  // No kind of step takes less than its keys and samples do.
  auto [key, sample] = sums.solved();
  for (const Mean& mean : means) {
    if (mean.keys > 0) key = std::min(key, mean.seconds / mean.keys);
  }
  for (const Mean& mean : means) {
    if (mean.samples > 0) sample = std::min(sample, std::max(mean.seconds - key * mean.keys, 0.0) / mean.samples);
  }
  key_seconds_ = key;
  sample_seconds_ = sample;
  for (const Mean& mean : means) {
    const double rest = mean.seconds - key * mean.keys - sample * mean.samples;
    add_knot({mean.rows, std::max(rest, 0.0), mean.steps}, few);
  }
}

// Few of many steps say little, and more rows never take less: such knots become one with the one before.
void StepCostModel::add_knot(Knot knot, double few) {
  while (!knots_.empty()) {
    const Knot& last = knots_.back();
    if (std::min(last.steps, knot.steps) >= few && last.seconds <= knot.seconds) break;
    const double steps = last.steps + knot.steps;
    knot.rows = (last.rows * last.steps + knot.rows * knot.steps) / steps;
    knot.seconds = (last.seconds * last.steps + knot.seconds * knot.steps) / steps;
    knot.steps = steps;
    knots_.pop_back();
  }
  knots_.push_back(knot);
}

double StepCostModel::row_seconds(double rows) const {
  const auto above = std::ranges::lower_bound(knots_, rows, {}, &Knot::rows);
  if (above == knots_.begin()) return above->seconds;  // fewer rows than ever were: a step is a step
  if (above == knots_.end()) return knots_.back().seconds * rows / knots_.back().rows;
  const Knot& low = *(above - 1);
  return low.seconds + (above->seconds - low.seconds) * (rows - low.rows) / (above->rows - low.rows);
}

double StepCostModel::seconds(const StepSize& step) const {
  return row_seconds(step.rows) + key_seconds_ * step.keys + sample_seconds_ * step.samples;
}

}  // namespace kvasir
