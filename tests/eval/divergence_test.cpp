#include "eval/divergence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace kvasir::testing {
namespace {

// Logits of these probabilities, moved by any constant.
std::vector<float> logits(const std::vector<double>& probabilities, double moved = 0) {
  std::vector<float> out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p) + moved));
  return out;
}

TEST(Divergence, OfKnownDistributions) {
  // KL(p || q) = 0.5 log(0.5 / 0.25) + 0.25 log(0.25 / 0.5) + 0.25 log(1) = 0.25 log 2
  const RowComparison row = compare_rows(logits({0.5, 0.25, 0.25}), logits({0.25, 0.5, 0.25}, 3), 1);
  EXPECT_NEAR(row.kl, 0.25 * std::log(2.0), 1e-7);
  EXPECT_NEAR(row.surprise, std::log(2.0), 1e-7);  // of the judged one
  EXPECT_FALSE(row.same_top);
  // Not symmetric: 0.9 log(0.9 / 0.5) + 0.1 log(0.1 / 0.5), and 0.5 log(0.5 / 0.9) + 0.5 log(0.5 / 0.1)
  EXPECT_NEAR(compare_rows(logits({0.9, 0.1}), logits({0.5, 0.5}), 0).kl, 0.3680642, 1e-6);
  EXPECT_NEAR(compare_rows(logits({0.5, 0.5}), logits({0.9, 0.1}), 0).kl, 0.5108256, 1e-6);
}

TEST(Divergence, OfEqualLogitsIsExactlyZeroAndOfNearlyEqualOnesSmall) {
  std::vector<float> row(1000);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(std::sin(static_cast<double>(i)) * 9);
  EXPECT_EQ(compare_rows(row, row, 7).kl, 0.0);
  EXPECT_TRUE(compare_rows(row, row, 7).same_top);
  std::vector<float> near = row;
  near[3] += 1e-3F;
  const double p = std::exp(-surprise(row, 3));
  EXPECT_NEAR(compare_rows(row, near, 7).kl, p * (1 - p) * 1e-6 / 2, p * 1e-9);  // the second order of the change
}

TEST(Divergence, LargeLogitsDoNotOverflowAndNonsenseIsRefused) {
  EXPECT_NEAR(compare_rows(std::vector<float>{30000, 29999}, std::vector<float>{-30000, -30001}, 0).kl, 0, 1e-9);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THROW(compare_rows(std::vector<float>{1, 2}, std::vector<float>{1, nan}, 0), Error);
  EXPECT_THROW(compare_rows(std::vector<float>{1, 2}, std::vector<float>{1, -infinity}, 0), Error);
  EXPECT_THROW(surprise(std::vector<float>{infinity, 0}, 0), Error);
  // What is impossible in both is no difference.
  EXPECT_EQ(compare_rows(std::vector<float>{1, -infinity}, std::vector<float>{1, -infinity}, 0).kl, 0.0);
}

TEST(QualitySums, AreTheMeansAndTheNearestRankOfAllRows) {
  for (const int rows : {1, 99, 100, 101, 250, 1000}) {
    QualitySums sums{.rows_expected = rows};
    std::vector<double> kls;
    for (int i = 0; i < rows; ++i) {
      const double kl = (i * 7919 % rows) * 0.5;  // each of 0 … rows-1 once where rows and 7919 have no common part
      kls.push_back(kl);
      sums.add({1.5, kl, i % 4 != 0});
    }
    std::ranges::sort(kls);
    const auto rank = static_cast<size_t>(std::ceil(0.99 * rows));
    EXPECT_EQ(sums.kl_99(), kls[rank - 1]) << rows;
    EXPECT_EQ(sums.most_kl(), kls.back());
    EXPECT_NEAR(sums.perplexity(), std::exp(1.5), 1e-12);
    EXPECT_NEAR(sums.mean_kl(), (rows - 1) * 0.25, 1e-9);
    EXPECT_LE(static_cast<int>(sums.largest.size()), rows / 100 + 1);
  }
  QualitySums four{.rows_expected = 4};
  for (int i = 0; i < 4; ++i) four.add({0, 0, i != 0});
  EXPECT_EQ(four.top_agreement(), 0.75);
}

}  // namespace
}  // namespace kvasir::testing
