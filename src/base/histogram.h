// Counts of values up to each of some bounds, as Prometheus keeps them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace kvasir {

class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void observe(double value) {
    const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();  // a bound is in its own bucket
    ++counts_[static_cast<size_t>(bucket)];
    sum_ += value;
  }
  std::span<const double> bounds() const { return bounds_; }
  std::span<const std::int64_t> counts() const {
    return counts_;
  }  // of each bucket alone; the last: above all bounds
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;  // ascending
  std::vector<std::int64_t> counts_;
  double sum_ = 0;
};

}  // namespace kvasir
