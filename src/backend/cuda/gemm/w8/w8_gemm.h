// The arguments of a GEMM with 8-bit weights (weight_quantization.h).
#pragma once

#include "backend/cuda/gemm/gemm.h"
#include "backend/weight_quantization.h"

namespace kvasir::cuda {

// The sums of gemm.h over codes, which are exact in bf16; the finished sum is multiplied by its output's scale, then
// the bias is added. So kernels may dequantize in registers or in memory. Invariants: of.w holds codes in w8_layout.h
// (ld_w is unused), of.number is kBF16.
struct W8GemmArgs {
  GemmArgs of;
  const float* scales = nullptr;  // [outputs]
  WeightQuantization form = WeightQuantization::kInt8;
};

}  // namespace kvasir::cuda
