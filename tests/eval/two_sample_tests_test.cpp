// Statistics with known values.
#include "eval/two_sample_tests.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kvasir::testing {
namespace {

TEST(Kolmogorov, HasTheValuesOfTheTables) {
  EXPECT_NEAR(kolmogorov_tail(0.5), 0.9639452436648751, 1e-12);
  EXPECT_NEAR(kolmogorov_tail(1.0), 0.2699996716773545, 1e-12);
  EXPECT_NEAR(kolmogorov_tail(1.3581), 0.05, 1e-4);  // the critical values every textbook has
  EXPECT_NEAR(kolmogorov_tail(1.6276), 0.01, 1e-5);
  EXPECT_NEAR(kolmogorov_tail(2.0), 6.709252557796953e-4, 1e-15);
  EXPECT_EQ(kolmogorov_tail(0), 1);
  // Both series meet.
  EXPECT_NEAR(kolmogorov_tail(std::nextafter(1.0, 0.0)), kolmogorov_tail(1.0), 1e-12);
}

TEST(KsTest, MeasuresTheLargestDistance) {
  const std::vector<double> a{1, 2, 3, 4};
  EXPECT_EQ(ks_test(a, a).distance, 0);
  EXPECT_EQ(ks_test(a, a).p, 1);
  EXPECT_EQ(ks_test(a, std::vector<double>{5, 6}).distance, 1);
  EXPECT_EQ(ks_test(a, std::vector<double>{3, 4, 5, 6}).distance, 0.5);
  EXPECT_DOUBLE_EQ(ks_test(a, std::vector<double>{4, 1, 2.5}).distance, 2. / 4 - 1. / 3);              // sorted first
  EXPECT_EQ(ks_test(std::vector<double>{1, 1, 1, 2}, std::vector<double>{1, 2, 2, 2}).distance, 0.5);  // ties
}

TEST(KsTest, FalseAlarmsAreAsRareAsPSays) {
  std::mt19937 random(7);
  std::exponential_distribution<double> draw;
  int alarms = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> a(200);
    std::vector<double> b(200);
    for (double& value : a) value = draw(random);
    for (double& value : b) value = draw(random);
    if (ks_test(a, b).p < 0.05) ++alarms;
  }
  EXPECT_GT(alarms, 50);  // 100 expected, a little fewer for samples of this size
  EXPECT_LT(alarms, 130);
}

TEST(KsTest, SeesADifference) {
  std::mt19937 random(7);
  std::normal_distribution<double> draw;
  std::vector<double> a(500);
  std::vector<double> b(500);
  for (double& value : a) value = draw(random);
  for (double& value : b) value = draw(random) + 0.5;
  EXPECT_LT(ks_test(a, b).p, 1e-6);
}

TEST(Auc, IsAHalfWhenNothingCanBeTold) {
  const std::vector<double> a{1, 2, 3, 4};
  EXPECT_EQ(auc(a, a).value, 0.5);
  EXPECT_EQ(auc(a, std::vector<double>{5, 6}).value, 1);
  EXPECT_EQ(auc(std::vector<double>{5, 6}, a).value, 0);
  EXPECT_EQ(auc(a, std::vector<double>{2.5}).value, 0.5);
  EXPECT_EQ(auc(a, std::vector<double>{2}).value, 0.375);  // one below, one tie
  EXPECT_NEAR(auc(std::vector<double>(500, 1), std::vector<double>(500, 1)).margin, 0.0358, 1e-4);
}

TEST(Quantile, IsAValueOfTheSample) {
  const std::vector<double> a{5, 1, 4, 2, 3};
  EXPECT_EQ(quantile(a, 0), 1);
  EXPECT_EQ(quantile(a, 0.5), 3);
  EXPECT_EQ(quantile(a, 1), 5);
}

}  // namespace
}  // namespace kvasir::testing
