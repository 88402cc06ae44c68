// Panels of quantized weights: how 16 outputs of each type lie together.
//
// A group is 32 inputs, or 256 for the large types (*_k, *_xs): then it begins with a header [16 d][16 m] in
// binary16. It is cut into parts of 32 inputs:
//
//   scales   of small types [16 d] or [16 d][16 m] in binary16, [16 exponents] in bytes, or [16 d] in float32 with or
//            without [16 zeros] in bytes; of large types bytes:
//            [16 scale], [16 scale][16 min], or, where scales are for 16 inputs, [16 scale of the first half]
//            [16 scale of the second]; where those have mins as well, scale and min share a byte, the scale low
//   planes   a bit above the others of every code: [8 quads][16 outputs][4 inputs] bits; one plane or two
//   codes    two bits: [2][16 outputs][4 inputs], quads v, v + 2, v + 4 and v + 6 from the lowest bits up;
//            nibbles: [4][16 outputs][4 inputs], quad v in the low nibbles and quad v + 4 in the high ones;
//            bytes: [8 quads][16 outputs][4 inputs], 128 above their value
//
// So a load of 64 bytes is what one dot product instruction takes: 16 outputs by 4 inputs.
#pragma once

#include <array>

#include "backend/cpu/kernels.h"
#include "backend/quant/blocks.h"
#include "backend/weight_type.h"

namespace kvasir::cpu {

inline constexpr int kPart32 = 32;  // inputs of a part
inline constexpr int kQuad = 4;     // inputs that a dot product sums

// What a nibble stands for, where that is not itself.
enum class Levels : std::uint8_t {
  kNone,
  kIq4,   // quant::kLevels
  kE2m1,  // quant::kE2m1Doubled
};

// How a small type keeps its scale.
enum class ScaleForm : std::uint8_t {
  kHalf,      // binary16
  kExponent,  // a byte: quant::half_exponent
  kFloat,     // float32
};

struct QuantPanel {
  bool large = false;    // groups of 256 with a header
  bool halves = false;   // a scale for 16 inputs
  bool has_min = false;  // x = d q + m, or d scale q - m min
  int bits = 4;          // of a code
  int zero = 0;          // what is taken off a code, or off the level it stands for
  Levels levels = Levels::kNone;
  ScaleForm scale = ScaleForm::kHalf;
  bool own_zero = false;  // every output has one, which is taken off its codes
  bool e4m3 = false;      // codes are no integers, and lie input by input: [32 inputs][16 outputs]

  constexpr int code_bits() const { return bits == 8 ? 8 : bits >= 4 ? 4 : 2; }  // without the planes
  constexpr int planes() const { return bits - code_bits(); }
  constexpr int codes_in_byte() const { return 8 / code_bits(); }
  constexpr int group_inputs() const { return large ? 256 : kPart32; }
  constexpr int header_bytes() const { return !large ? 0 : has_min ? 4 * kLanes : 2 * kLanes; }
  constexpr int scale_bytes() const {
    if (!large && scale == ScaleForm::kFloat) return (own_zero ? 5 : 4) * kLanes;
    const int of_one = large || scale == ScaleForm::kExponent ? 1 : 2;
    return of_one * (has_min || halves ? 2 : 1) * kLanes;
  }
  constexpr int plane_bytes() const { return planes() * kPart32 * kLanes / 8; }
  constexpr int code_bytes() const { return kPart32 * kLanes * code_bits() / 8; }
  constexpr int part_bytes() const { return scale_bytes() + plane_bytes() + code_bytes(); }
  constexpr int group_bytes() const { return header_bytes() + group_inputs() / kPart32 * part_bytes(); }
};

// REQUIRES: a quantized type.
constexpr QuantPanel quant_panel(DType type) {
  QuantPanel panel;
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
    case DType::kIQ4_NL:
      panel.zero = 128;
      panel.levels = Levels::kIq4;
      return panel;
    case DType::kMXFP4:
      panel.zero = 12;
      panel.levels = Levels::kE2m1;
      panel.scale = ScaleForm::kExponent;
      return panel;
    case DType::kInt8x32:
      panel.bits = 8;
      panel.zero = 128;
      panel.scale = ScaleForm::kFloat;
      return panel;
    case DType::kInt4x32:
      panel.own_zero = true;
      panel.scale = ScaleForm::kFloat;
      return panel;
    case DType::kFp8x32:
      panel.bits = 8;
      panel.e4m3 = true;
      panel.scale = ScaleForm::kFloat;
      return panel;
    case DType::kQ2_K:
      panel.bits = 2;
      panel.large = panel.halves = panel.has_min = true;
      return panel;
    case DType::kQ3_K:
      panel.bits = 3;
      panel.zero = 4;
      panel.large = panel.halves = true;
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
    case DType::kIQ4_XS:
      panel.zero = 128;
      panel.levels = Levels::kIq4;
      panel.large = true;
      return panel;
    default:
      return {};
  }
}

// A panel whose codes have been spread to bytes, and are what they stand for, all else as it was.
constexpr QuantPanel spread(QuantPanel panel) {
  panel.bits = 8;
  panel.levels = Levels::kNone;
  return panel;
}

// What nibbles stand for, with the panel's zero added: never negative.
constexpr std::array<std::uint8_t, 16> level_codes(const QuantPanel& panel) {
  std::array<std::uint8_t, 16> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    const int level = panel.levels == Levels::kIq4    ? quant::kLevels[i]
                      : panel.levels == Levels::kE2m1 ? quant::kE2m1Doubled[i]
                                                      : static_cast<int>(i);
    out[i] = static_cast<std::uint8_t>(level + panel.zero);
  }
  return out;
}

// 16 rows of quantized weights, null where there is none, into a panel.
void pack_quantized(DType type, const std::byte* const (&rows)[kLanes], int inputs, std::byte* panel);

// The weights of one output of a panel, exactly what decode_row gives.
void read_quantized(DType type, const std::byte* panel, int lane, int inputs, float* out);

}  // namespace kvasir::cpu
