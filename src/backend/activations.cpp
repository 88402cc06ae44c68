#include "backend/activations.h"

#include <fmt/format.h>

#include "base/error.h"

namespace kvasir {

std::string_view name_of(Activations activations) { return activations == Activations::kF32 ? "f32" : "auto"; }

Activations parse_activations(std::string_view name) {
  if (name == "auto") return Activations::kAsWeights;
  if (name == "f32") return Activations::kF32;
  fail_usage(fmt::format("activations cannot be '{}'", name), "--activations",
             "use auto (as precise as the weights) or f32");
}

}  // namespace kvasir
