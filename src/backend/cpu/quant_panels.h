// Panels of quantized weights: how 16 outputs of each type lie together.
//
// A group is 32 inputs, or 256 for the *_k types: then it begins with a header [16 d][16 m] in binary16. It is cut
// into parts of 32 inputs:
//
//   scales   of small types [16 d] or [16 d][16 m] in binary16; of *_k types bytes: [16 scale][16 min], or, where
//            scales are for 16 inputs, [16 scale of the first half][16 scale of the second]
//   planes   a bit above the nibbles for every code: [8 quads][16 outputs][4 inputs] bits; one plane or two
//   codes    nibbles: [4][16 outputs][4 inputs], quad v in the low nibbles and quad v + 4 in the high ones;
//            bytes: [8 quads][16 outputs][4 inputs], 128 above their value
//
// So a load of 64 bytes is what one dot product instruction takes: 16 outputs by 4 inputs.
#pragma once

#include "backend/cpu/kernels.h"
#include "backend/weight_type.h"

namespace kvasir::cpu {

inline constexpr int kPart32 = 32;  // inputs of a part
inline constexpr int kQuad = 4;     // inputs that a dot product sums

struct QuantPanel {
  bool computed = false;  // there are kernels
  bool large = false;     // groups of 256 with a header
  bool halves = false;    // a scale for 16 inputs
  bool has_min = false;   // x = d q + m, or d scale q - m min
  int bits = 4;           // of a code
  int zero = 0;           // what is taken off a code

  constexpr int planes() const { return bits == 8 ? 0 : bits - 4; }
  constexpr int group_inputs() const { return large ? 256 : kPart32; }
  constexpr int header_bytes() const { return !large ? 0 : has_min ? 4 * kLanes : 2 * kLanes; }
  constexpr int scale_bytes() const { return (large ? 1 : 2) * (has_min || halves ? 2 : 1) * kLanes; }
  constexpr int plane_bytes() const { return planes() * kPart32 * kLanes / 8; }
  constexpr int code_bytes() const { return kPart32 * kLanes * (bits == 8 ? 8 : 4) / 8; }
  constexpr int part_bytes() const { return scale_bytes() + plane_bytes() + code_bytes(); }
  constexpr int group_bytes() const { return header_bytes() + group_inputs() / kPart32 * part_bytes(); }
};

constexpr QuantPanel quant_panel(DType type) {
  QuantPanel panel;
  panel.computed = true;
  switch (type) {
    case DType::kQ8_0:
      panel.bits = 8;
      panel.zero = 128;
      return panel;
    case DType::kQ4_0:
      panel.zero = 8;
      return panel;
    case DType::kQ4_1:
      panel.has_min = true;
      return panel;
    case DType::kQ5_0:
      panel.bits = 5;
      panel.zero = 16;
      return panel;
    case DType::kQ5_1:
      panel.bits = 5;
      panel.has_min = true;
      return panel;
    case DType::kQ4_K:
      panel.large = panel.has_min = true;
      return panel;
    case DType::kQ5_K:
      panel.bits = 5;
      panel.large = panel.has_min = true;
      return panel;
    case DType::kQ6_K:
      panel.bits = 6;
      panel.zero = 32;
      panel.large = panel.halves = true;
      return panel;
    default:
      return {};
  }
}

// A panel whose codes have been spread to bytes, all else as it was.
constexpr QuantPanel spread(QuantPanel panel) {
  panel.bits = 8;
  return panel;
}

// 16 rows of quantized weights, null where there is none, into a panel.
void pack_quantized(DType type, const std::byte* const (&rows)[kLanes], int inputs, std::byte* panel);

// The weights of one output of a panel, exactly what decode_row gives.
void read_quantized(DType type, const std::byte* panel, int lane, int inputs, float* out);

}  // namespace kvasir::cpu
