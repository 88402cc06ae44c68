// Register tiles on the dot products of AVX-512: what Highway has no operation for.
#pragma once

#include "backend/cpu/kernels.h"

namespace kvasir::cpu {

// bf16 weights by rows of bf16 pairs. Only where has_bf16_dots(). The same bits as the kernels without dot products:
// the instruction adds first the product of the odd inputs, then that of the even ones, and rounds after each.
MatmulKernel bf16_dot_kernel();

// `rounds` times 16 x 16 dot products of bf16 pairs in registers, to measure the machine.
float bf16_multiply_add(std::int64_t rounds, float seed);

}  // namespace kvasir::cpu
