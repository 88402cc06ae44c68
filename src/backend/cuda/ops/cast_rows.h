// Rows of activations as GEMMs take them.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/gemm/gemm.h"
#include "backend/tensor.h"
#include "base/ids.h"

namespace kvasir::cuda {

// Casts x to rows of `number`s, ld elements apart, zeros from x.cols on. bf16 rounds to nearest even; f16 too,
// clamped to its largest number; f32 copies.
void convert_rows(Matrix x, Number number, void* to, std::int64_t ld, cudaStream_t stream);

// A GEMM's input rows: a kernel may write its output there as convert_rows() would, and save that pass.
struct GemmInput {
  void* to = nullptr;  // null: not wanted
  std::int64_t ld = 0;
  Number number = Number::kBF16;  // 16-bit
};

// The rows' tokens, on the device: those of the host, or, where these are sampled_token()s, what was sampled there
// (token_of_row.cuh).
struct RowTokens {
  const TokenId* sent = nullptr;
  const TokenId* sampled = nullptr;
  friend bool operator==(const RowTokens&, const RowTokens&) = default;
};

// Rows of a table of `number`s, as float32, out.cols numbers each.
struct Table {
  const void* data = nullptr;
  std::int64_t ld = 0;
  Number number = Number::kBF16;
};
void gather_rows(Table table, RowTokens tokens, Matrix out, cudaStream_t stream);

// out[r][c] += bias[c]
void add_bias(const float* bias, Matrix out, cudaStream_t stream);

}  // namespace kvasir::cuda
