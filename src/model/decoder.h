// The forward pass of every decoder, and of every encoder: whatever a ModelSpec says.
#pragma once

#include <cstdint>
#include <memory>

#include "model/model.h"
#include "model/tensor_source.h"

namespace kvasir {

// The backend outlives it. REQUIRES: check_runnable() and check_limits() have passed the spec; of a draft head, that
// its target's weights are shared.
std::unique_ptr<Model> make_decoder(const ModelSpec& spec, const TensorSource& weights, Backend& backend,
                                    const LoadOptions& options, const SharedWeights& shared = {});

// What such a decoder keeps beside its weights: activations for steps of so many rows, and the angles of positions. To
// the byte, since the same constructors ask for it; memory that an op takes for itself is the backend's own affair.
std::uint64_t activation_bytes(const ModelSpec& spec, int max_rows);

}  // namespace kvasir
