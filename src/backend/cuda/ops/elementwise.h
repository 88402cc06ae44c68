// Ops on single rows: norms, rope, SwiGLU, sums, per-head projections.
#pragma once

#include <cuda_runtime.h>

#include "backend/backend.h"
#include "backend/cuda/ops/cast_rows.h"

namespace kvasir::cuda {

struct NormRows {
  Matrix x;
  const float* weight = nullptr;
  const float* bias = nullptr;  // or null
  float eps = 0;
  Matrix out;
  int weights_step = 0;  // from the weights and biases of one head to those of the next; 0: all share them
};
// Normalizes whole rows, or each of a row's `heads` heads.
void normalize(NormRule::Kind kind, const NormRows& rows, int heads, cudaStream_t stream);
// rows.x += y, then its norm into rows.out, if that has data, and into `also`. The bits are those of add() and
// normalize(). REQUIRES: fits_add_rms_norm().
bool fits_add_rms_norm(int cols);
void add_rms_norm(Matrix y, const NormRows& rows, GemmInput also, cudaStream_t stream);
void rope(Matrix x, int heads, const RopeTable& table, cudaStream_t stream);
void swiglu(Matrix gate, Matrix up, Matrix out, cudaStream_t stream);
// swiglu() and convert_rows() in one; for bf16, gate and up are rounded first.
void swiglu(Matrix gate, Matrix up, GemmInput to, cudaStream_t stream);
// The same of a GEMM's gate_up_out.
void swiglu_rounded(const GemmArgs& gemm, cudaStream_t stream);
void add(Matrix x, Matrix y, cudaStream_t stream);

// All rows of a ProjectOp's x, whichever sequence they are of.
struct ProjectedRows {
  Matrix x;
  int heads = 0;
  PerHeadLinear by;
  Matrix out;
  friend bool operator==(const ProjectedRows&, const ProjectedRows&) = default;
};
void project(const ProjectedRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
