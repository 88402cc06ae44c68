// How long steps take: measured, kept as sums of steps of about one kind, and a model of them that says what a step
// of so many rows takes that look at so many keys, and of which so many are sampled from.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/listeners.h"

namespace kvasir {

// Sums over steps with about as many rows, each behind about as many keys, and as many of them sampled from.
struct StepCostCell {
  std::int64_t steps = 0;
  double rows = 0;
  double keys = 0;
  double samples = 0;
  double seconds = 0;
};

class StepCosts {
 public:
  void add(const StepTime& step) {
    add({1, static_cast<double>(step.rows), static_cast<double>(step.keys), static_cast<double>(step.samples),
         step.seconds});
  }
  void add(const StepCostCell& cell);  // of one kind
  bool empty() const { return cells_.empty(); }
  std::vector<StepCostCell> cells() const;
  void clear() { cells_.clear(); }

  std::optional<double> swap_bytes_per_second;  // to the host or back

 private:
  using Kind = std::array<int, 3>;  // of rows, of keys a row, and of samples
  std::map<Kind, StepCostCell> cells_;
};

struct StepSize {
  double rows = 0;
  double keys = 0;
  double samples = 0;
};

// So much by rows, for each key and for each sample: the first from steps with about as many rows, on straight lines
// between them; the others from what steps took longer that had as many rows, and more keys or samples.
class StepCostModel {
 public:
  explicit StepCostModel(const StepCosts& measured);  // REQUIRES: some were
  double seconds(const StepSize& step) const;

  double key_seconds() const { return key_seconds_; }
  double sample_seconds() const { return sample_seconds_; }

 private:
  struct Knot {
    double rows = 0;
    double seconds = 0;  // without keys and samples
    double steps = 0;    // that say so
  };
  void add_knot(Knot knot, double few);
  double row_seconds(double rows) const;

  std::vector<Knot> knots_;  // by rows
  double key_seconds_ = 0;
  double sample_seconds_ = 0;
};

}  // namespace kvasir
