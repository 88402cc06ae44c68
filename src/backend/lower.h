// Fused ops as the plain ones that they stand for: written once, for whoever has no kernel for them, and for backends
// that wrap another and want to see plain ops.
#pragma once

#include "backend/backend.h"

namespace kvasir {

// Runs on `to`, in order and with the same bits, what the op stands for; some of that may be fused, too.
void lower(const AddNormOp& op, Backend& to);
void lower(const GatedMatmulOp& op, Backend& to);
void lower(const NormMatmulOp& op, Backend& to);
void lower(const FeedForwardOp& op, Backend& to);
void lower(const RopeKvWriteOp& op, Backend& to);

template <class T>
concept FusedOp = requires(const T& op, Backend& to) {
  lower(op, to);
};

}  // namespace kvasir
