// Where the codes of weights in 8 bits (weight_form.h) lie on the device: as the tensor cores' operands want them.
//
// A unit is 8 outputs and 64 k: 512 bytes, 16 for each lane of a warp, which are its share of four operands of 16 k
// (tensor_core.cuh: lane 4 g + t has output g, and k 2t, 2t + 1, 2t + 8, 2t + 9 of each 16). Of a word's bytes the
// first and the third are the lower two k, so that each pair lies in the lower bytes of two 16-bit numbers. Units of
// the same outputs lie one after the other; what is beyond the matrix is zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layout/host_device.h"

namespace kvasir::cuda {

inline constexpr int kUnitOutputs = 8;
inline constexpr int kUnitDepth = 64;
inline constexpr int kUnitBytes = kUnitOutputs * kUnitDepth;

KVASIR_HD constexpr int units_along(int inputs) { return (inputs + kUnitDepth - 1) / kUnitDepth; }
KVASIR_HD constexpr int units_across(int outputs) { return (outputs + kUnitOutputs - 1) / kUnitOutputs; }

// Of all codes of a matrix.
constexpr size_t code_bytes(int outputs, int inputs) {
  return static_cast<size_t>(units_across(outputs)) * static_cast<size_t>(units_along(inputs)) * kUnitBytes;
}

// Of the code of an input among those of its 8 outputs' units.
KVASIR_HD constexpr int code_in_row(int output_in_unit, int input) {
  const int k = input % 16;
  const int lane = output_in_unit * 4 + k % 8 / 2;
  return input / kUnitDepth * kUnitBytes + lane * 16 + input % kUnitDepth / 16 * 4 + k % 2 * 2 + k / 8;
}

}  // namespace kvasir::cuda
