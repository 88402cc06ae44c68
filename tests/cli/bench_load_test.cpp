// What a load that ran several times is said to have taken.
#include "cli/bench/bench_load.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvasir::testing {
namespace {

LoadResult run_of(double seconds, const std::vector<double>& steps) {
  LoadResult out;
  out.test = {3, 512, 8};
  out.seconds = seconds;
  out.first_tokens = {seconds / 2};
  out.steps = steps;
  for (const double step : steps) out.host.push_back(step / 10);
  out.ahead = static_cast<std::int64_t>(steps.size());
  return out;
}

TEST(MedianLoad, IsOfMedianLengthAndHasTheStepsOfAll) {
  const LoadResult load = median_load({run_of(9, {5, 6}), run_of(1, {1, 7}), run_of(4, {2, 3})});
  EXPECT_EQ(load.runs, 3);
  EXPECT_EQ(load.seconds, 4);
  EXPECT_EQ(load.tokens_per_second(), 6);
  EXPECT_EQ(load.first_tokens, (std::vector<double>{0.5, 2, 4.5}));
  EXPECT_EQ(load.steps, (std::vector<double>{1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(load.host, (std::vector<double>{0.1, 0.2, 0.3, 0.5, 0.6, 0.7}));
  EXPECT_EQ(load.ahead, 6);
}

TEST(MedianLoad, OfTwoLiesBetweenThem) {
  EXPECT_EQ(median_load({run_of(3, {}), run_of(2, {})}).seconds, 2.5);
  EXPECT_EQ(median_load({run_of(2, {4, 1})}).steps, (std::vector<double>{1, 4}));
}

TEST(Percentile, IsOneOfTheValues) {
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({1, 2, 3}, 0.5), 2);
  EXPECT_EQ(percentile({1, 2, 3}, 0.99), 3);
  EXPECT_EQ(percentile({1, 2, 3}, 1), 3);
}

}  // namespace
}  // namespace kvasir::testing
