// Samples tokens from logits on the device: exactly those that sample/sampler.h chooses.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/tensor.h"
#include "base/sample_rule.h"

namespace kvasir::cuda {

struct SampleArgs {
  Matrix logits;  // [rows][vocabulary]
  // In device memory before any kernel of the batch begins:
  const SampleRule* rules = nullptr;  // [rows]
  TokenId* const* on_host = nullptr;  // [1]: where the tokens go in pinned host memory, [rows]
  TokenId* tokens = nullptr;          // [rows], device memory; -1 if the logits are not numbers
  friend bool operator==(const SampleArgs&, const SampleArgs&) = default;
};
void sample_rows(const SampleArgs& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
