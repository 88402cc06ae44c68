// The forward pass of every decoder, and of every encoder: whatever a ModelSpec says.
#pragma once

#include <memory>

#include "model/model.h"
#include "model/tensor_source.h"

namespace kvasir {

// The backend outlives it. REQUIRES: check_runnable() and check_limits() have passed the spec; of a draft head, that
// its target's weights are shared.
std::unique_ptr<Model> make_decoder(const ModelSpec& spec, const TensorSource& weights, Backend& backend,
                                    const LoadOptions& options, const SharedWeights& shared = {});

}  // namespace kvasir
