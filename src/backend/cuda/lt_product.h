// Products through cuBLASLt, by algorithms that its caller chooses.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "backend/cuda/cublas_lt.h"
#include "backend/cuda/device_memory.h"
#include "backend/cuda/product.h"

namespace kvasir::cuda {

enum class SumSplits : std::uint8_t {
  kNever,    // each sum by one block
  kAllowed,  // for comparison: what invariance costs
};

class LtProduct {
 public:
  // Opens the library; its absence is no error.
  LtProduct();
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  bool available() const { return handle_ != nullptr; }

  // Whether `out` lies as the algorithms want it.
  static bool fits(const Product& product);

  // What the library suggests for this shape, best guess first: none where it knows nothing.
  std::vector<cublasLtMatmulAlgo_t> suggestions(const Product& product, SumSplits splits, int at_most) const;

  // Without the bias; rounded_out where the product gates. False where the algorithm cannot do it.
  bool multiply(const Product& product, const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) const;

 private:
  void describe(const Product& product) const;

  std::unique_ptr<const CublasLt> lt_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceMemory workspace_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  // Of the product at hand; the library reads them during a call only.
  cublasLtMatrixLayout_t weights_ = nullptr;
  cublasLtMatrixLayout_t rows_ = nullptr;
  cublasLtMatrixLayout_t out_ = nullptr;
};

}  // namespace kvasir::cuda
