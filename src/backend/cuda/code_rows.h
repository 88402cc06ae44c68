// What else becomes of codes of 8 bits: numbers in memory, rows of an embedding, and sums that are not scaled yet.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/coded_product.h"
#include "backend/cuda/convert_rows.h"
#include "backend/tensor.h"

namespace kvasir::cuda {

struct CodedWeights {
  const void* codes = nullptr;  // code_layout.h
  const float* scales = nullptr;
  int inputs = 0;
  WeightForm form = WeightForm::kInt8;
};

// Outputs [first, first + count) as rows of bf16, ld elements apart, without their scales. REQUIRES: ld is a multiple
// of kPadding and at least inputs; beyond those are zeros.
struct WideRows {
  void* to = nullptr;
  std::int64_t ld = 0;
  int first = 0;
  int count = 0;
};
void widen_codes(const CodedWeights& weights, const WideRows& rows, cudaStream_t stream);

// out[r][c] = out[r][c] * scales[c] + bias[c], if there is one.
void scale_outputs(const float* scales, const float* bias, Matrix out, cudaStream_t stream);

// The tokens' outputs, as float32.
void gather_codes(const CodedWeights& table, RowTokens tokens, Matrix out, cudaStream_t stream);

}  // namespace kvasir::cuda
