#include "tune/symmetric_eigen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/random_data.h"

namespace kvasir::testing {
namespace {

Square symmetric_noise(int n, std::uint64_t seed) {
  Square out(n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      out(i, j) = out(j, i) = static_cast<double>(noise(seed, static_cast<std::uint64_t>(i * n + j)));
    }
  }
  return out;
}

void check(const Square& matrix) {
  const Eigen eigen = symmetric_eigen(matrix);
  const int n = matrix.size;
  double largest = 1e-300;
  for (const double value : matrix.at) largest = std::max(largest, std::abs(value));
  const Square turned = product(matrix, eigen.vectors);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      double dot = 0;
      for (int k = 0; k < n; ++k) dot += eigen.vectors(k, i) * eigen.vectors(k, j);
      EXPECT_NEAR(dot, i == j ? 1 : 0, 1e-12) << n;
      EXPECT_NEAR(turned(i, j), eigen.values[static_cast<size_t>(j)] * eigen.vectors(i, j), 1e-12 * n * largest) << n;
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(eigen.values, std::greater<>()));
  for (int j = 0; j < n; ++j) {
    double extreme = 0;
    for (int i = 0; i < n; ++i) {
      if (std::abs(eigen.vectors(i, j)) > std::abs(extreme)) extreme = eigen.vectors(i, j);
    }
    EXPECT_GT(extreme, 0);
  }
  EXPECT_EQ(symmetric_eigen(matrix).vectors.at, eigen.vectors.at);
}

TEST(SymmetricEigen, VectorsAreOrthonormalAndBelongToTheirValues) {
  for (const int n : {1, 2, 3, 7, 16, 64}) check(symmetric_noise(n, static_cast<std::uint64_t>(n)));
}

TEST(SymmetricEigen, SoTheyAreOfMatricesWithEqualValuesOrNone) {
  for (const int n : {1, 4, 9}) {
    check(Square(n));
    Square same(n);
    for (int i = 0; i < n; ++i) same(i, i) = 3;
    check(same);
    Square ones(n);
    std::ranges::fill(ones.at, 1e-12);
    check(ones);
  }
}

TEST(SymmetricEigen, FindsWhatIsKnown) {
  Square matrix(2);
  matrix(0, 0) = matrix(1, 1) = 2;
  matrix(0, 1) = matrix(1, 0) = 1;
  const Eigen eigen = symmetric_eigen(matrix);
  EXPECT_NEAR(eigen.values[0], 3, 1e-15);
  EXPECT_NEAR(eigen.values[1], 1, 1e-15);
  EXPECT_NEAR(eigen.vectors(0, 0), eigen.vectors(1, 0), 1e-15);
}

}  // namespace
}  // namespace kvasir::testing
