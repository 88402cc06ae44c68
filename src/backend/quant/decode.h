// From stored weights to floats.
#pragma once

#include <cstddef>

#include "backend/weight_type.h"

namespace kvasir {

// `cols` numbers, a multiple of block_elements(type), from a row that may be unaligned.
//
// One arithmetic on every machine, in float32 and without fused operations: scales are products of d and a small
// integer, rounded once; a number is that product times its q, rounded; an offset is then added or a min (d times an
// integer, rounded) taken off, rounded. Every backend's kernels must mean these numbers.
void decode_row(DType type, const std::byte* row, int cols, float* out);

}  // namespace kvasir
