// Plain loops in the order of the formulas, sums in double: slow, readable, and what every other backend is held to.
#pragma once

#include <memory>

#include "backend/activation_precision.h"
#include "backend/backend.h"

namespace kvasir {

std::unique_ptr<Backend> make_ref_backend(ActivationPrecision activations = ActivationPrecision::kAsWeights);

}  // namespace kvasir
