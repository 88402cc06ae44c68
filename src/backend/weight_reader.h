// Reading single numbers of a HostWeight, whatever its type and alignment.
#pragma once

#include <vector>

#include "backend/tensor.h"

namespace kvasir {

// Row `row` of the weight as floats; out has weight.cols elements. Exact.
void read_row(const HostWeight& weight, int row, float* out);

// The same as its form keeps it: rounded where that has fewer bits.
void read_kept_row(const HostWeight& weight, int row, float* out);

// A one-row weight (a norm, a bias) as floats.
std::vector<float> read_vector(const HostWeight& weight);

}  // namespace kvasir
