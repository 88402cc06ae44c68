// Tokens from logits, on the device: exactly those that sample/sampler.h draws.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/tensor.h"
#include "base/draw.h"

namespace kvasir::cuda {

struct DrawnRows {
  Matrix logits;                    // [rows][vocabulary]
  const DrawRule* rules = nullptr;  // [rows], in pinned memory of the host, or on the device
  TokenId* tokens = nullptr;        // [rows], on the device; -1 where the logits are no numbers
  TokenId* on_host = nullptr;       // [rows], the same, in pinned memory of the host
};
void draw_rows(const DrawnRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
