#include "eval/two_sample_tests.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/check.h"

namespace kvasir {
namespace {

std::vector<double> sorted(std::span<const double> values) {
  CHECK(!values.empty());
  std::vector<double> out(values.begin(), values.end());
  std::ranges::sort(out);
  return out;
}

}  // namespace

// Two series for the same function: one converges at once for small x, the other for large.
double kolmogorov_tail(double x) {
  if (x <= 0) return 1;
  double sum = 0;
  if (x < 1) {
    for (int k = 1; k <= 20; ++k) {
      const double odd = 2 * k - 1;
      sum += std::exp(-odd * odd * std::numbers::pi * std::numbers::pi / (8 * x * x));
    }
    return 1 - std::sqrt(2 * std::numbers::pi) / x * sum;
  }
  for (int k = 1; k <= 20; ++k) sum += (k % 2 == 1 ? 2 : -2) * std::exp(-2.0 * k * k * x * x);
  return sum;
}

KsTest ks_test(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> first = sorted(a);
  const std::vector<double> second = sorted(b);
  const auto n = static_cast<double>(first.size());
  const auto m = static_cast<double>(second.size());
  KsTest test;
  for (size_t i = 0, j = 0; i < first.size() && j < second.size();) {
    const double at = std::min(first[i], second[j]);
    while (i < first.size() && first[i] <= at) ++i;
    while (j < second.size() && second[j] <= at) ++j;
    test.distance = std::max(test.distance, std::abs(static_cast<double>(i) / n - static_cast<double>(j) / m));
  }
  test.p = kolmogorov_tail(std::sqrt(n * m / (n + m)) * test.distance);
  return test;
}

Auc auc(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> others = sorted(b);
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(others.size());
  CHECK(!a.empty());
  double below = 0;
  for (const double value : a) {
    const auto [from, to] = std::equal_range(others.begin(), others.end(), value);
    below += static_cast<double>(others.end() - to) + static_cast<double>(to - from) / 2;
  }
  return {below / (n * m), 1.96 * std::sqrt((n + m + 1) / (12 * n * m))};
}

double quantile(std::span<const double> values, double share) {
  const std::vector<double> order = sorted(values);
  const auto last = static_cast<double>(order.size() - 1);
  return order[static_cast<size_t>(std::lround(last * share))];
}

}  // namespace kvasir
