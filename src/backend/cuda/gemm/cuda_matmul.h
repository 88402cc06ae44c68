// The GEMMs of the CUDA backend.
//
// A row's bits depend on that row and the weights alone (gemm.h, f32_gemm.h), whichever kernel runs. Work is enqueued
// on the stream. Once a shape was met with as many rows, a call does not wait, allocate or measure, so it can be
// captured. Calls come from one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "backend/activation_precision.h"
#include "backend/backend.h"
#include "backend/cuda/gemm/autotuner.h"
#include "backend/cuda/gemm/cuda_weight.h"
#include "backend/cuda/gemm/w8/w8_dispatch.h"
#include "backend/cuda/ops/cast_rows.h"
#include "base/ids.h"

namespace kvasir::cuda {

class CudaMatmul {
 public:
  // On the device in use.
  CudaMatmul(cudaStream_t stream, ActivationPrecision activations);

  // See Backend::load(); cuda_weight.h says what each type becomes. Blocks until it is done.
  std::unique_ptr<Weight> load(std::span<const HostWeight> stacked);

  // Random weights of a trained model's magnitude, to measure shapes without a file.
  std::unique_ptr<Weight> make_random(int outputs, int inputs, Number number, std::uint64_t seed);

  // x, out and bias are in device memory; bias may be null.
  void multiply(const Weight& weight, Matrix x, const float* bias, Matrix out);

  // The same with rows that `fill` writes into the GEMM input, [rows][inputs], as convert_rows() would. REQUIRES:
  // can_fill().
  using Fill = std::function<void(GemmInput)>;
  void multiply(const Weight& weight, const Fill& fill, const float* bias, Matrix out);
  static bool can_fill(const Weight& weight, int rows);

  // out = down * (silu(gate) * up); gate and up are rounded if inputs are bf16 (swiglu()).
  void multiply_swiglu(const Weight& down, Matrix gate, Matrix up, const float* bias, Matrix out);

  // The whole MLP: gate and up are a GEMM of the rows that `fill` writes. `between` is scratch memory of their size.
  // REQUIRES: can_fuse_swiglu().
  void multiply_swiglu(const GatedMlp& layer, const Fill& fill, Matrix between, Matrix out);
  static bool can_fuse_swiglu(const GatedMlp& layer, int rows);

  // out: [tokens][inputs of the table].
  void embed(const Weight& table, RowTokens tokens, Matrix out);

  // Where a kernel may leave x cast for the next GEMM: the next multiply() of x reads it there. Empty if no GEMM with
  // such rows is known. The caller calls forget_rows() before x, or anything else, is written.
  GemmInput gemm_input_for(Matrix x);
  void forget_rows() { ready_ = {}; }

  // Addresses of the GEMM inputs: they change when the rows outgrow them.
  std::pair<const void*, const void*> rows_at() const { return {rows_.data(), swiglu_rows_.data()}; }

  // For descriptions. Without cuBLASLt many rows are slower, with the same bits.
  bool has_cublas_lt() const { return autotuner_.cublaslt().available(); }

  // The kernel for so many rows: "skinny 32x2 b2" (SkinnyShape), "cublasLt" or "mma"; with 8-bit weights "w8 32x2 b2"
  // or "dequantized". For reports, and to measure before the device memory is given away.
  std::string choice(const Weight& weight, int rows);

 private:
  GemmArgs gemm_of(const CudaWeight& weight, int rows);
  GemmArgs gemm_of(const CudaWeight& weight, int rows, DeviceMemory& input);
  bool knows(const CudaWeight& weight, const GemmArgs& gemm) const;
  void multiply_some(const CudaWeight& weight, Matrix x, const float* bias, Matrix out);  // at most kMostRows
  GemmInput make_gemm_input(Matrix x, Number number);
  void multiply_f32_rows(const CudaWeight& weight, Matrix x, const float* bias, Matrix out);

  cudaStream_t stream_;
  WeightLoader loader_;
  GemmAutotuner autotuner_;
  W8Dispatch w8_;
  void run(const CudaWeight& weight, const GemmArgs& gemm, const Fill& fill);

  DeviceMemory rows_;         // the current call's GEMM input
  DeviceMemory swiglu_rows_;  // the input of `down`, while rows_ holds that of gate and up
  struct Ready {
    Matrix x;  // without data: none
    Number number = Number::kBF16;
  };
  Ready ready_;                         // what rows_ holds already
  std::map<int, Number> last_numbers_;  // by row length: the number type of the last GEMM
};

}  // namespace kvasir::cuda
