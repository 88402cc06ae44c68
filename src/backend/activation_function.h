// What an MLP bends its numbers by.
#pragma once

#include <cstdint>

namespace kvasir {

enum class Activation : std::uint8_t {
  kIdentity,
  kSilu,
  kGelu,
  kGeluTanh,
  kRelu,
  kReluSquared,
  // Of a gate and its up, both held to a limit: min(gate, limit) sigmoid(1.702 gate) (up + 1), as gpt-oss has it.
  // Always with an up.
  kSwigluOai,
};

inline constexpr float kSwigluOaiAlpha = 1.702F;

}  // namespace kvasir
