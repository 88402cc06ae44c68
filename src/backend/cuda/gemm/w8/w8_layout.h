// The layout of 8-bit weights on the device, in the order of mma operands.
//
// An atom is 8 outputs and 64 k: 512 bytes, 16 for each lane of a warp, its share of four operands of 16 k
// (tensor_core.cuh: lane 4 g + t has output g, and k 2t, 2t + 1, 2t + 8, 2t + 9 of each 16). The first and third byte
// of a word are the lower two k, so that each pair lies in the low bytes of two 16-bit numbers. Atoms of the same
// outputs are contiguous; beyond the matrix are zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layout/host_device.h"

namespace kvasir::cuda {

inline constexpr int kAtomOutputs = 8;
inline constexpr int kAtomDepth = 64;
inline constexpr int kAtomBytes = kAtomOutputs * kAtomDepth;

KVASIR_HD constexpr int atoms_along(int inputs) { return (inputs + kAtomDepth - 1) / kAtomDepth; }
KVASIR_HD constexpr int atoms_across(int outputs) { return (outputs + kAtomOutputs - 1) / kAtomOutputs; }

// Bytes of all codes of a matrix.
constexpr size_t w8_bytes(int outputs, int inputs) {
  return static_cast<size_t>(atoms_across(outputs)) * static_cast<size_t>(atoms_along(inputs)) * kAtomBytes;
}

// The offset of an input's code in the atoms of its 8 outputs.
KVASIR_HD constexpr int w8_offset(int output_in_atom, int input) {
  const int k = input % 16;
  const int lane = output_in_atom * 4 + k % 8 / 2;
  return input / kAtomDepth * kAtomBytes + lane * 16 + input % kAtomDepth / 16 * 4 + k % 2 * 2 + k / 8;
}

}  // namespace kvasir::cuda
