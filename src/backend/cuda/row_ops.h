// What is done to each row alone: norms, rotations, gates, sums.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"
#include "backend/cuda/convert_rows.h"

namespace kvasir::cuda {

struct NormRows {
  Matrix x;
  const float* weight = nullptr;
  const float* bias = nullptr;  // or null
  float eps = 0;
  Matrix out;
};
void rms_norm(const NormRows& rows, cudaStream_t stream);
void layer_norm(const NormRows& rows, cudaStream_t stream);
// rows.x += y, then its norm, which goes to `also` as well, or only there, where rows.out has no data; the bits of
// add() and rms_norm().
// REQUIRES: fits_add_rms_norm().
bool fits_add_rms_norm(int cols);
void add_rms_norm(Matrix y, const NormRows& rows, RowsRoom also, cudaStream_t stream);
void rope(Matrix x, int heads, const RopeTable& table, cudaStream_t stream);
void swiglu(Matrix gate, Matrix up, Matrix out, cudaStream_t stream);
// As swiglu() and convert_rows(); to bf16, gates and ups are rounded before, too.
void swiglu(Matrix gate, Matrix up, RowsRoom to, cudaStream_t stream);
// The same of a product's rounded outputs.
void gate_rounded(const Product& product, cudaStream_t stream);
void add(Matrix x, Matrix y, cudaStream_t stream);

struct ProjectedRows {
  Matrix x;
  int heads = 0;
  HeadMatrices by;
  const SequenceView* sequences = nullptr;  // on the device
  int rows = 0;                             // of all sequences
  Matrix out;
};
void project(const ProjectedRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
