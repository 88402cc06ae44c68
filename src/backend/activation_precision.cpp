#include "backend/activation_precision.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvasir {

std::string_view name_of(ActivationPrecision activations) {
  return activations == ActivationPrecision::kF32 ? "f32" : "auto";
}

ActivationPrecision parse_activation_precision(std::string_view name) {
  if (name == "auto") return ActivationPrecision::kAsWeights;
  if (name == "f32") return ActivationPrecision::kF32;
  fail_usage(fmt::format("activations cannot be '{}'", name), "--activations",
             "use auto (as precise as the weights) or f32");
}

}  // namespace kvasir
