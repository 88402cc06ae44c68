// Rows of activations as they meet weights.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/product.h"
#include "backend/tensor.h"
#include "base/ids.h"

namespace kvasir::cuda {

// x as rows of `number`s, ld elements apart, zeros from x.cols to ld. bf16: rounded to nearest even. f16: likewise,
// numbers beyond its range become its largest. f32: copied.
void convert_rows(Matrix x, Number number, void* to, std::int64_t ld, cudaStream_t stream);

// Where a kernel leaves what it makes as convert_rows() would, for the product behind it.
struct RowsRoom {
  void* to = nullptr;  // null: nowhere
  std::int64_t ld = 0;
  Number number = Number::kBF16;  // of 16 bits
};

// Tokens of rows, on the device: those of the host, and where these are drawn_token()s what was drawn
// (row_tokens.cuh).
struct RowTokens {
  const TokenId* sent = nullptr;
  const TokenId* drawn = nullptr;
};

// Rows of a table of `number`s, as float32: out has as many columns as the table's rows have numbers.
struct Table {
  const void* data = nullptr;
  std::int64_t ld = 0;
  Number number = Number::kBF16;
};
void gather_rows(Table table, RowTokens tokens, Matrix out, cudaStream_t stream);

// out[r][c] += bias[c]
void add_bias(const float* bias, Matrix out, cudaStream_t stream);

}  // namespace kvasir::cuda
