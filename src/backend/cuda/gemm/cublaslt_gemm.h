// GEMMs by cuBLASLt, with algorithms that the caller chooses.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "backend/cuda/gemm/cublas_lt.h"
#include "backend/cuda/gemm/gemm.h"
#include "backend/cuda/runtime/device_memory.h"

namespace kvasir::cuda {

enum class SumSplits : std::uint8_t {
  kNever,    // no split-K
  kAllowed,  // for comparison: what batch invariance costs
};

class CublasLtGemm {
 public:
  // Opens the library; its absence is no error.
  CublasLtGemm();
  ~CublasLtGemm();
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  bool available() const { return handle_ != nullptr; }

  // Whether `out` is aligned as the algorithms want it.
  static bool fits(const GemmArgs& gemm);

  // The library's suggestions for this shape, best first; possibly none.
  std::vector<cublasLtMatmulAlgo_t> suggestions(const GemmArgs& gemm, SumSplits splits, int at_most) const;

  // Without bias; into gate_up_out if has_swiglu(). False: the algorithm cannot do it.
  bool multiply(const GemmArgs& gemm, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) const;

 private:
  void describe(const GemmArgs& gemm) const;

  std::unique_ptr<const CublasLt> lt_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  // Of the current GEMM; the library reads them only during a call.
  cublasLtMatrixLayout_t weights_ = nullptr;
  cublasLtMatrixLayout_t rows_ = nullptr;
  cublasLtMatrixLayout_t out_ = nullptr;
};

}  // namespace kvasir::cuda
