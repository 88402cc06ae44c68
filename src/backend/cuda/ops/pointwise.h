// Ops on single numbers that a few families of models have: activations, scales, gates and decays.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/ops.h"

namespace kvasir::cuda {

void activate(const ActivationOp& op, cudaStream_t stream);
void scale(const ScaleOp& op, cudaStream_t stream);
void sigmoid_gate(const SigmoidGateOp& op, cudaStream_t stream);
void decay(const DecayOp& op, cudaStream_t stream);
void scale_queries(const QueryScaleOp& op, cudaStream_t stream);

}  // namespace kvasir::cuda
