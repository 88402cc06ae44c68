#include "backend/cpu/quant_panels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "backend/quant/blocks.h"
#include "base/check.h"
#include "layout/codec.h"

namespace kvasir::cpu {
namespace {

using namespace quant;

// 32 codes as words: of pairs of bits, word v holds inputs 4 v …, 4 v + 8 … and so on from the lowest up; of nibbles,
// word v holds inputs 4 v … below and 16 + 4 v … above; of bytes, word q inputs 4 q ….
using Words = std::array<std::uint32_t, 8>;

// A part of one output, on its way between a file's block and a panel.
struct Part {
  Words codes{};                          // 2 words of pairs of bits, 4 of nibbles, or 8 of bytes
  std::array<std::uint32_t, 2> planes{};  // bit i: the code of input i has this bit above its others
  std::array<std::uint8_t, 2> scales{};   // of large types: scale and min, or a scale for each half
};

// The header of a block: d and m in binary16; or an exponent in d; or a float32, and a zero in d.
struct Head {
  std::uint16_t d = 0;
  std::uint16_t m = 0;
  float scale = 0;
};

std::uint32_t word(const std::uint8_t* bytes, int index) {
  std::uint32_t out;
  std::memcpy(&out, bytes + index * 4, sizeof out);
  return out;
}

template <class Block>
Block block_at(const std::byte* row, std::int64_t index) {
  Block block;
  std::memcpy(&block, row + index * static_cast<std::int64_t>(sizeof block), sizeof block);  // may be unaligned
  return block;
}

template <class Block>  // of nibbles in halves: a file's bytes are a panel's
Part small_part(const Block& block) {
  Part part;
  for (int v = 0; v < 4; ++v) part.codes[static_cast<size_t>(v)] = word(block.q, v);
  if constexpr (requires { block.high; }) std::memcpy(&part.planes[0], block.high, 4);
  return part;
}

template <class Block>
requires std::is_same_v<Block, Q8_0> || std::is_same_v<Block, Int8x32> Part part_of(const Block& block) {
  Part part;
  for (int q = 0; q < 8; ++q) {
    part.codes[static_cast<size_t>(q)] = word(reinterpret_cast<const std::uint8_t*>(block.q), q) ^ 0x80808080U;
  }
  return part;
}

// Sub-block s of Q4_K and Q5_K, which shares its bytes with a neighbour.
template <class Block>
requires std::is_same_v<Block, Q4_K> || std::is_same_v<Block, Q5_K> Part large_part(const Block& block, int s) {
  Part part;
  for (int v = 0; v < 4; ++v) {
    const std::uint32_t first = word(block.q, s / 2 * 8 + v) >> (s % 2 * 4) & 0x0f0f0f0fU;
    const std::uint32_t second = word(block.q, s / 2 * 8 + 4 + v) >> (s % 2 * 4) & 0x0f0f0f0fU;
    part.codes[static_cast<size_t>(v)] = first | second << 4;
  }
  if constexpr (requires { block.high; }) {
    for (int l = 0; l < kPart32; ++l) part.planes[0] |= static_cast<std::uint32_t>(block.high[l] >> s & 1) << l;
  }
  const ScaleMin integers = scale_min(block.scales, s);
  part.scales = {static_cast<std::uint8_t>(integers.scale), static_cast<std::uint8_t>(integers.min)};
  return part;
}

Part large_part(const Q6_K& block, int s) {
  Part part;
  const std::uint8_t* low = block.low + s / 4 * 64 + s % 2 * 32;
  const std::uint8_t* high = block.high + s / 4 * 32;
  const int nibble = s % 4 / 2 * 4;
  for (int v = 0; v < 4; ++v) {
    part.codes[static_cast<size_t>(v)] =
        (word(low, v) >> nibble & 0x0f0f0f0fU) | (word(low, 4 + v) >> nibble & 0x0f0f0f0fU) << 4;
  }
  for (int l = 0; l < kPart32; ++l) {
    const int two = high[l] >> (s % 4 * 2) & 3;
    part.planes[0] |= static_cast<std::uint32_t>(two & 1) << l;
    part.planes[1] |= static_cast<std::uint32_t>(two >> 1) << l;
  }
  part.scales = {static_cast<std::uint8_t>(block.scales[2 * s]), static_cast<std::uint8_t>(block.scales[2 * s + 1])};
  return part;
}

// Sub-block s of the types that keep pairs of bits in runs of 32 numbers.
Words pairs_of_bits(const std::uint8_t (&q)[64], int s) {
  Words codes{};
  for (int quad = 0; quad < 8; ++quad) {
    const std::uint32_t four = word(q, s / 4 * 8 + quad) >> (s % 4 * 2) & 0x03030303U;
    codes[static_cast<size_t>(quad % 2)] |= four << (quad / 2 * 2);
  }
  return codes;
}

Part large_part(const Q2_K& block, int s) {
  Part part;
  part.codes = pairs_of_bits(block.q, s);
  part.scales = {block.scales[2 * s], block.scales[2 * s + 1]};
  return part;
}

Part large_part(const Q3_K& block, int s) {
  Part part;
  part.codes = pairs_of_bits(block.q, s);
  for (int l = 0; l < kPart32; ++l) part.planes[0] |= static_cast<std::uint32_t>(block.high[l] >> s & 1) << l;
  for (int half = 0; half < 2; ++half) {
    part.scales[static_cast<size_t>(half)] = static_cast<std::uint8_t>(q3_scale(block.scales, 2 * s + half) - 32);
  }
  return part;
}

Part large_part(const IQ4_XS& block, int s) {
  Part part;
  for (int v = 0; v < 4; ++v) part.codes[static_cast<size_t>(v)] = word(block.q, s * 4 + v);
  part.scales[0] = static_cast<std::uint8_t>(iq4_scale(block, s) - 32);
  return part;
}

Head head_of(const MXFP4& block) { return {block.e}; }
Head head_of(const Int8x32& block) { return {0, 0, float_at(block.d)}; }
Head head_of(const Fp8x32& block) { return {0, 0, float_at(block.d)}; }
Head head_of(const Int4x32& block) { return {block.zero, 0, float_at(block.d)}; }
template <class Block>
Head head_of(const Block& block) {
  if constexpr (requires { block.m; }) return {block.d, block.m};
  return {block.d};
}

void put16(std::byte* array, int lane, std::uint16_t value) { std::memcpy(array + lane * 2, &value, 2); }
std::uint16_t get16(const std::byte* array, int lane) {
  std::uint16_t value;
  std::memcpy(&value, array + lane * 2, 2);
  return value;
}

// d, and m where there is one, as the type keeps them: before a group of a large type, before a part of a small one.
void put_head(const QuantPanel& panel, const Head& head, int lane, std::byte* to) {
  if (panel.scale == ScaleForm::kExponent) {
    to[lane] = static_cast<std::byte>(head.d);
    return;
  }
  if (panel.scale == ScaleForm::kFloat) {
    std::memcpy(to + lane * 4, &head.scale, sizeof head.scale);
    if (panel.own_zero) to[4 * kLanes + lane] = static_cast<std::byte>(head.d);
    return;
  }
  put16(to, lane, head.d);
  if (panel.has_min) put16(to + 2 * kLanes, lane, head.m);
}

void put_part(const QuantPanel& panel, const Part& part, int lane, std::byte* to) {
  if (panel.large) {
    to[lane] = std::byte{part.scales[0]};
    if (panel.has_min || panel.halves) to[kLanes + lane] = std::byte{part.scales[1]};
  }
  std::byte* planes = to + panel.scale_bytes();
  for (int p = 0; p < panel.planes(); ++p, planes += 64) {
    for (int quad = 0; quad < 8; ++quad) {  // four bits of a lane, two lanes to a byte
      const std::uint32_t bits = part.planes[static_cast<size_t>(p)] >> (quad * kQuad) & 15U;
      planes[quad * 8 + lane / 2] |= static_cast<std::byte>(bits << (lane % 2 * 4));
    }
  }
  std::byte* codes = to + panel.scale_bytes() + panel.plane_bytes();
  for (int w = 0; w < panel.code_bytes() / (4 * kLanes); ++w) {
    std::memcpy(codes + (w * kLanes + lane) * 4, &part.codes[static_cast<size_t>(w)], 4);
  }
}

template <class Block>
void pack_lane(DType type, const std::byte* row, int inputs, int lane, std::byte* panel) {
  const QuantPanel format = quant_panel(type);
  for (std::int64_t group = 0; group < inputs / format.group_inputs(); ++group, panel += format.group_bytes()) {
    const auto block = block_at<Block>(row, group);
    put_head(format, head_of(block), lane, panel);
    if constexpr (requires { large_part(block, 0); }) {
      for (int s = 0; s < 8; ++s) {
        put_part(format, large_part(block, s), lane, panel + format.header_bytes() + s * format.part_bytes());
      }
    } else if constexpr (std::is_same_v<Block, Fp8x32>) {
      for (int i = 0; i < kPart32; ++i) {
        panel[format.scale_bytes() + i * kLanes + lane] = static_cast<std::byte>(block.q[i]);
      }
    } else if constexpr (requires { part_of(block); }) {
      put_part(format, part_of(block), lane, panel);
    } else {
      put_part(format, small_part(block), lane, panel);
    }
  }
}

void pack_lane(DType type, const std::byte* row, int inputs, int lane, std::byte* panel) {
  switch (type) {
    case DType::kQ8_0:
      return pack_lane<Q8_0>(type, row, inputs, lane, panel);
    case DType::kQ4_0:
      return pack_lane<Q4_0>(type, row, inputs, lane, panel);
    case DType::kQ4_1:
      return pack_lane<Q4_1>(type, row, inputs, lane, panel);
    case DType::kQ5_0:
      return pack_lane<Q5_0>(type, row, inputs, lane, panel);
    case DType::kQ5_1:
      return pack_lane<Q5_1>(type, row, inputs, lane, panel);
    case DType::kIQ4_NL:
      return pack_lane<IQ4_NL>(type, row, inputs, lane, panel);
    case DType::kMXFP4:
      return pack_lane<MXFP4>(type, row, inputs, lane, panel);
    case DType::kInt8x32:
      return pack_lane<Int8x32>(type, row, inputs, lane, panel);
    case DType::kInt4x32:
      return pack_lane<Int4x32>(type, row, inputs, lane, panel);
    case DType::kFp8x32:
      return pack_lane<Fp8x32>(type, row, inputs, lane, panel);
    case DType::kQ2_K:
      return pack_lane<Q2_K>(type, row, inputs, lane, panel);
    case DType::kQ3_K:
      return pack_lane<Q3_K>(type, row, inputs, lane, panel);
    case DType::kQ4_K:
      return pack_lane<Q4_K>(type, row, inputs, lane, panel);
    case DType::kQ5_K:
      return pack_lane<Q5_K>(type, row, inputs, lane, panel);
    case DType::kQ6_K:
      return pack_lane<Q6_K>(type, row, inputs, lane, panel);
    case DType::kIQ4_XS:
      return pack_lane<IQ4_XS>(type, row, inputs, lane, panel);
    default:
      CHECK(is_quantized(type));
  }
}

int code_at(const QuantPanel& panel, const std::byte* part, int lane, int input) {
  const std::byte* codes = part + panel.scale_bytes() + panel.plane_bytes();
  const int words = 8 / panel.codes_in_byte();
  const int quad = input / kQuad;
  const auto byte = std::to_integer<int>(codes[(quad % words * kLanes + lane) * kQuad + input % kQuad]);
  int code = byte >> (quad / words * panel.code_bits()) & ((1 << panel.code_bits()) - 1);
  for (int p = 0; p < panel.planes(); ++p) {
    const int bit = lane * kQuad + input % kQuad;
    const auto bits = std::to_integer<int>(part[panel.scale_bytes() + p * 64 + input / kQuad * 8 + bit / 8]);
    code |= (bits >> (bit % 8) & 1) << (panel.code_bits() + p);
  }
  return panel.levels == Levels::kNone ? code : level_codes(panel)[static_cast<size_t>(code)];
}

// What a code is worth before it meets its scale.
float value_at(const QuantPanel& panel, const std::byte* part, int lane, int input) {
  if (panel.e4m3) {
    return CodecE4M3::decode(std::to_integer<std::uint8_t>(part[panel.scale_bytes() + input * kLanes + lane]));
  }
  const int zero = panel.own_zero ? std::to_integer<int>(part[4 * kLanes + lane]) : panel.zero;
  return static_cast<float>(code_at(panel, part, lane, input) - zero);
}

// x = scale q + offset, of 16 inputs of one output.
struct Line {
  float scale = 0;
  float offset = 0;
};

Line small_line(const QuantPanel& panel, const std::byte* part, int lane) {
  if (panel.scale == ScaleForm::kExponent) return {half_exponent(std::to_integer<std::uint8_t>(part[lane])), 0};
  if (panel.scale == ScaleForm::kFloat) return {float_at(part + lane * 4), 0};
  const float d = CodecF16::decode(get16(part, lane));
  return {d, panel.has_min ? CodecF16::decode(get16(part + 2 * kLanes, lane)) : 0};
}

Line large_line(const QuantPanel& panel, const std::byte* group, const std::byte* part, int lane) {
  const auto byte = std::to_integer<std::uint8_t>(part[lane]);
  const float d = CodecF16::decode(get16(group, lane));
  if (!panel.has_min) return {d * static_cast<float>(static_cast<std::int8_t>(byte)), 0};
  const float m = CodecF16::decode(get16(group + 2 * kLanes, lane));
  const int scale = panel.halves ? byte & 15 : byte;
  const int min = panel.halves ? byte >> 4 : std::to_integer<int>(part[kLanes + lane]);
  return {d * static_cast<float>(scale), -(m * static_cast<float>(min))};
}

}  // namespace

void pack_quantized(DType type, const std::byte* const (&rows)[kLanes], int inputs, std::byte* panel) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (rows[lane] != nullptr) pack_lane(type, rows[lane], inputs, lane, panel);
  }
}

void read_quantized(DType type, const std::byte* panel, int lane, int inputs, float* out) {
  const QuantPanel format = quant_panel(type);
  for (int first = 0; first < inputs; first += kPart32) {
    const std::byte* group =
        panel + static_cast<std::ptrdiff_t>(first / format.group_inputs()) * format.group_bytes();
    const std::byte* part =
        group + format.header_bytes() + first % format.group_inputs() / kPart32 * format.part_bytes();
    for (int i = 0; i < kPart32; ++i) {
      const std::byte* scales = format.halves ? part + i / 16 * kLanes : part;
      const Line line = format.large ? large_line(format, group, scales, lane) : small_line(format, scales, lane);
      const float q = value_at(format, part, lane, i);
      out[first + i] = format.has_min ? line.scale * q + line.offset : line.scale * q;
    }
  }
}

}  // namespace kvasir::cpu
