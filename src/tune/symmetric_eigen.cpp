#include "tune/symmetric_eigen.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace kvasir {
namespace {

constexpr int kMostSweeps = 60;  // a dozen are usual

double off_diagonal(const Square& matrix) {
  double sum = 0;
  for (int i = 0; i < matrix.size; ++i) {
    for (int j = 0; j < i; ++j) sum += matrix(i, j) * matrix(i, j);
  }
  return sum;
}

// Turns dimensions p and q so that matrix(p, q) becomes zero.
void rotate(Square& matrix, Square& vectors, int p, int q) {
  if (matrix(p, q) == 0.0) return;
  const double theta = (matrix(q, q) - matrix(p, p)) / (2 * matrix(p, q));
  const double t = std::copysign(1.0, theta) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1);
  const double s = t * c;
  for (int i = 0; i < matrix.size; ++i) {
    const double a = matrix(i, p);
    const double b = matrix(i, q);
    matrix(i, p) = c * a - s * b;
    matrix(i, q) = s * a + c * b;
  }
  for (int i = 0; i < matrix.size; ++i) {
    const double a = matrix(p, i);
    const double b = matrix(q, i);
    matrix(p, i) = c * a - s * b;
    matrix(q, i) = s * a + c * b;
  }
  matrix(p, q) = matrix(q, p) = 0;
  for (int i = 0; i < matrix.size; ++i) {
    const double a = vectors(i, p);
    const double b = vectors(i, q);
    vectors(i, p) = c * a - s * b;
    vectors(i, q) = s * a + c * b;
  }
}

double sign_of_largest(const Square& vectors, int column) {
  double largest = 0;
  for (int i = 0; i < vectors.size; ++i) {
    if (std::abs(vectors(i, column)) > std::abs(largest)) largest = vectors(i, column);
  }
  return largest < 0 ? -1.0 : 1.0;
}

}  // namespace

Square product(const Square& a, const Square& b) {
  CHECK(a.size == b.size);
  Square out(a.size);
  for (int i = 0; i < a.size; ++i) {
    for (int k = 0; k < a.size; ++k) {
      const double factor = a(i, k);
      for (int j = 0; j < a.size; ++j) out(i, j) += factor * b(k, j);
    }
  }
  return out;
}

Eigen symmetric_eigen(Square matrix) {
  const int n = matrix.size;
  Square vectors(n);
  for (int i = 0; i < n; ++i) vectors(i, i) = 1;
  double all = 0;
  for (const double value : matrix.at) all += value * value;
  for (int sweep = 0; sweep < kMostSweeps && off_diagonal(matrix) > 1e-30 * all; ++sweep) {
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) rotate(matrix, vectors, p, q);
    }
  }
  std::vector<int> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&matrix](int a, int b) { return matrix(a, a) > matrix(b, b); });
  Eigen out{{}, Square(n)};
  for (int i = 0; i < n; ++i) {
    const int from = order[static_cast<size_t>(i)];
    const double sign = sign_of_largest(vectors, from);
    out.values.push_back(matrix(from, from));
    for (int row = 0; row < n; ++row) out.vectors(row, i) = sign * vectors(row, from);
  }
  return out;
}

}  // namespace kvasir
