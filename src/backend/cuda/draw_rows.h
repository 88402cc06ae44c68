// Tokens from logits, on the device: exactly those that sample/sampler.h draws.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/tensor.h"
#include "base/draw.h"

namespace kvasir::cuda {

struct DrawnRows {
  Matrix logits;  // [rows][vocabulary]
  // On the device, before any kernel of the batch begins:
  const DrawRule* rules = nullptr;    // [rows]
  TokenId* const* on_host = nullptr;  // [1]: where tokens go in pinned memory of the host, [rows]
  TokenId* tokens = nullptr;          // [rows], on the device; -1 where the logits are no numbers
};
void draw_rows(const DrawnRows& rows, cudaStream_t stream);

}  // namespace kvasir::cuda
