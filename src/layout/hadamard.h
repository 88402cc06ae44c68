// The orthonormal Hadamard rotation of a row: what lies in one dimension is spread evenly over all. It is its own
// inverse, and leaves dot products as they are, so that q and K may both be rotated, or V and then the output back.
#pragma once

#include "layout/host_device.h"

namespace kvasir {

// A row whose length is no power of two is rotated in parts, the largest power of two first. Only sums, differences
// and one product a number, in one order: the bits are the same wherever it runs.
KVASIR_HD inline void hadamard(float* row, int dim) {
  while (dim > 0) {
    int part = 1;
    float norm = 1.0F;
    for (; 2 * part <= dim; part *= 2) norm *= 0.5F;
    for (int half = 1; half < part; half *= 2) {
      for (int first = 0; first < part; first += 2 * half) {
        for (int i = first; i < first + half; ++i) {
          const float a = row[i];
          const float b = row[i + half];
          row[i] = a + b;
          row[i + half] = a - b;
        }
      }
    }
    // 1 / sqrt(part): norm is 1 / part, and its root is exact or exactly half of 2^-n sqrt(2).
    float root = 1.0F;
    for (; norm < 0.5F; norm *= 4.0F) root *= 0.5F;
    if (norm == 0.5F) root *= 0.70710678F;
    for (int i = 0; i < part; ++i) row[i] *= root;
    row += part;
    dim -= part;
  }
}

}  // namespace kvasir
