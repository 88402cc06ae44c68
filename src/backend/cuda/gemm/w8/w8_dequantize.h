// 8-bit weights beside the skinny GEMM: dequantized in memory, gathered for an embedding, scales of finished sums.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/w8/w8_gemm.h"
#include "backend/cuda/ops/cast_rows.h"
#include "backend/tensor.h"

namespace kvasir::cuda {

struct W8Weights {
  const void* codes = nullptr;  // w8_layout.h
  const float* scales = nullptr;
  int inputs = 0;
  WeightQuantization form = WeightQuantization::kInt8;
};

// Dequantizes outputs [first, first + count) to rows of bf16, ld elements apart, without scales. REQUIRES: ld is a
// multiple of kPadding and at least inputs; the rest becomes zeros.
struct DequantRows {
  void* to = nullptr;
  std::int64_t ld = 0;
  int first = 0;
  int count = 0;
};
void dequantize_w8(const W8Weights& weights, const DequantRows& rows, cudaStream_t stream);

// out[r][c] = out[r][c] * scales[c] + bias[c]; bias may be null.
void scale_outputs(const float* scales, const float* bias, Matrix out, cudaStream_t stream);

// The tokens' rows, as float32.
void gather_w8(const W8Weights& table, RowTokens tokens, Matrix out, cudaStream_t stream);

}  // namespace kvasir::cuda
