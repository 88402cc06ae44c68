// From floats to stored weights: what `kvasir convert` writes.
#pragma once

#include <cstddef>

#include "backend/weight_type.h"

namespace kvasir {

// f32, f16, bf16, q8_0, q4_0, q4_k and q6_k; the other types are only read.
bool can_encode(DType type);

// `cols` numbers, a multiple of block_elements(type), to row_bytes(type, cols) bytes. The numbers are finite: a scale
// beyond binary16 would make infinities of a block. The same numbers give the same bytes on every machine.
void encode_row(DType type, const float* values, int cols, std::byte* row);

}  // namespace kvasir
