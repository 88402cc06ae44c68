// The number formats that kept states can have, and the rule by which they stay exact.
//
// A state in a coarser format than float32 is rounded behind each kStateStep-th token of its text, counted from the
// beginning: the one that a sequence goes on from as well as those that are kept, and whether any is kept or not. So
// a kept state is the state, to the last bit, and an answer does not depend on what was found. States in such a
// format are kept at these places alone. Between them, and while a sequence runs, numbers are float32.
//
// Rounding what is rounded changes nothing: the largest number of an int8 row is 127 times its scale, which has 8
// significant bits.
//
//     bf16    inputs of convolutions and matrices as bf16
//     int8    matrices as 255 levels with a bf16 scale a row; inputs of convolutions, of which there are few, as bf16
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "layout/state_layout.h"

namespace kvasir {

enum class StateFormat : std::uint8_t { kF32, kBF16, kInt8 };

inline constexpr std::int64_t kStateStep = 16;

std::string_view state_format_name(StateFormat format);  // "bf16"
// Throws Error.
StateFormat parse_state_format(std::string_view name);

// What a state of so many layers takes in memory where it is kept.
std::int64_t state_bytes(const StateShape& shape, int layers, StateFormat format);

// Rows of a layer's numbers become what the format can hold. What is no number becomes 0, and what lies beyond ±1e30
// that.
void round_conv_inputs(StateFormat format, const StateShape& shape, float* inputs);
void round_matrix(StateFormat format, const StateShape& shape, float* matrix);  // of one head

// A rounded state to the bytes that are kept, and back: both give what rounding gave. REQUIRES: not kF32.
void encode_state(StateFormat format, const StateShape& shape, int layers, const float* from, std::byte* to);
void decode_state(StateFormat format, const StateShape& shape, int layers, const std::byte* from, float* to);

}  // namespace kvasir
