// Two sets of measurements: were they drawn from the same?
#pragma once

#include <span>

namespace kvasir {

// The two-sample Kolmogorov-Smirnov test. REQUIRES: neither is empty.
struct KsTest {
  double distance = 0;  // the largest between the two distribution functions, 0 to 1
  double p = 1;         // of a distance this large when there is no difference; the asymptotic value
};
KsTest ks_test(std::span<const double> a, std::span<const double> b);

// How often a value of `a` is below one of `b`, ties counted half: 0.5 when nothing can be told, 0 or 1 when
// everything can. REQUIRES: neither is empty.
struct Auc {
  double value = 0.5;
  double margin = 0;  // 95 times in 100 it is this near to 0.5 when there is no difference
};
Auc auc(std::span<const double> a, std::span<const double> b);

// P(K > x) of Kolmogorov's distribution.
double kolmogorov_tail(double x);

// Of the sorted values, the one that a share of them is below: 0.5 is the median. REQUIRES: not empty.
double quantile(std::span<const double> values, double share);

}  // namespace kvasir
