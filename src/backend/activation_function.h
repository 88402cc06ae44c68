// What an MLP bends its numbers by.
#pragma once

#include <cstdint>

namespace kvasir {

enum class Activation : std::uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

}  // namespace kvasir
