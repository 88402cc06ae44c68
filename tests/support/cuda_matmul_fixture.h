// GEMMs of one stream, and outputs compared where they are.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "backend/cuda/gemm/cuda_matmul.h"
#include "support/cuda_data.h"

namespace kvasir::testing {

class CudaMatmulFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda::check(cudaStreamCreate(&stream_), "creating a stream");
    matmul_ = std::make_unique<cuda::CudaMatmul>(stream_, ActivationPrecision::kAsWeights);
  }

  void TearDown() override {
    matmul_.reset();
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  bool same_bits(Matrix a, Matrix b) const {
    const cuda::DeviceMemory memory(sizeof(cuda::Tally));
    auto* tally = reinterpret_cast<cuda::Tally*>(memory.data());
    cuda::check(cudaMemsetAsync(tally, 0, sizeof(cuda::Tally), stream_), "clearing");
    cuda::compare_outputs(a, b, tally, stream_);
    cuda::check(cudaStreamSynchronize(stream_), "comparing");
    return download<cuda::Tally>(tally, 1)[0].different == 0;
  }

  // NaNs, so that outputs that are not written are found.
  void poison(Matrix matrix) const {
    cuda::check(cudaMemsetAsync(matrix.data, 0xff, static_cast<size_t>(matrix.rows * matrix.stride) * 4, stream_),
                "poisoning");
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<cuda::CudaMatmul> matmul_;
};

}  // namespace kvasir::testing
