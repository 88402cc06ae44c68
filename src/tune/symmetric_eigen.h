// Eigenvalues and eigenvectors of small symmetric matrices, in double precision.
#pragma once

#include <cstddef>
#include <vector>

namespace kvasir {

// A square of n x n numbers, row by row.
struct Square {
  explicit Square(int n) : size(n), at(static_cast<size_t>(n) * static_cast<size_t>(n), 0.0) {}

  double& operator()(int row, int column) { return at[index(row, column)]; }
  double operator()(int row, int column) const { return at[index(row, column)]; }

  int size;
  std::vector<double> at;

 private:
  size_t index(int row, int column) const {
    return static_cast<size_t>(row) * static_cast<size_t>(size) + static_cast<size_t>(column);
  }
};

Square product(const Square& a, const Square& b);

struct Eigen {
  std::vector<double> values;  // the largest first
  Square vectors;              // column i belongs to value i: orthonormal, its largest number positive
};

// By Jacobi's rotations. REQUIRES: symmetric, finite. The same input gives the same bits.
Eigen symmetric_eigen(Square matrix);

}  // namespace kvasir
