// What recurrent layers compute over the rows of each sequence (backend/recurrent_ops.h).
#pragma once

#include <cuda_runtime_api.h>

#include "backend/recurrent_ops.h"

namespace kvasir::cuda {

// `sequences` are the op's, in device memory, and uploaded before the batch.
void convolve(const CausalConvOp& op, const SequenceView* sequences, cudaStream_t stream);
void recur(const RecurrenceOp& op, const SequenceView* sequences, cudaStream_t stream);

}  // namespace kvasir::cuda
