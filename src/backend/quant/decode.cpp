#include "backend/quant/decode.h"

#include <cstring>

#include "backend/quant/blocks.h"
#include "base/check.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

using namespace quant;

float half(std::uint16_t stored) { return CodecF16::decode(stored); }

void decode(const Q8_0& block, float* out) {
  const float d = half(block.d);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(block.q[i]);
}

// Number i of a block of 32 whose nibbles are packed in halves.
int nibble(const std::uint8_t (&q)[16], int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }

int fifth_bit(const std::uint8_t (&high)[4], int i) { return (high[i / 8] >> (i % 8) & 1) << 4; }

void decode(const Q4_0& block, float* out) {
  const float d = half(block.d);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(nibble(block.q, i) - 8);
}

void decode(const Q4_1& block, float* out) {
  const float d = half(block.d);
  const float m = half(block.m);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(nibble(block.q, i)) + m;
}

void decode(const Q5_0& block, float* out) {
  const float d = half(block.d);
  for (int i = 0; i < kSmallBlock; ++i) {
    out[i] = d * static_cast<float>((nibble(block.q, i) | fifth_bit(block.high, i)) - 16);
  }
}

void decode(const Q5_1& block, float* out) {
  const float d = half(block.d);
  const float m = half(block.m);
  for (int i = 0; i < kSmallBlock; ++i) {
    out[i] = d * static_cast<float>(nibble(block.q, i) | fifth_bit(block.high, i)) + m;
  }
}

void decode(const IQ4_NL& block, float* out) {
  const float d = half(block.d);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(kLevels[nibble(block.q, i)]);
}

void decode(const MXFP4& block, float* out) {
  const float d = half_exponent(block.e);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(kE2m1Doubled[nibble(block.q, i)]);
}

// Number i of a block of 256 whose pairs of bits are packed in runs of 32, four runs to 32 bytes.
int two_bits(const std::uint8_t (&q)[64], int i) {
  const int run = i / 32;
  return q[run / 4 * 32 + i % 32] >> (2 * (run % 4)) & 3;
}

void decode(const Q2_K& block, float* out) {
  const float d = half(block.d);
  const float m = half(block.m);
  for (int i = 0; i < kLargeBlock; ++i) {
    const int scale = block.scales[i / 16];
    out[i] = d * static_cast<float>(scale & 15) * static_cast<float>(two_bits(block.q, i)) -
             m * static_cast<float>(scale >> 4);
  }
}

void decode(const Q3_K& block, float* out) {
  const float d = half(block.d);
  for (int i = 0; i < kLargeBlock; ++i) {
    const int third = block.high[i % 32] >> (i / 32) & 1;
    const float scale = d * static_cast<float>(q3_scale(block.scales, i / 16) - 32);
    out[i] = scale * static_cast<float>((two_bits(block.q, i) | third << 2) - 4);
  }
}

// Number l of sub-block s, where two sub-blocks share 32 bytes.
int shared_nibble(const std::uint8_t (&q)[128], int s, int l) { return q[s / 2 * 32 + l] >> (s % 2 * 4) & 15; }

void decode(const Q4_K& block, float* out) {
  for (int s = 0; s < 8; ++s) {
    const ScaleMin integers = scale_min(block.scales, s);
    const float scale = half(block.d) * static_cast<float>(integers.scale);
    const float min = half(block.m) * static_cast<float>(integers.min);
    for (int l = 0; l < 32; ++l) *out++ = scale * static_cast<float>(shared_nibble(block.q, s, l)) - min;
  }
}

void decode(const Q5_K& block, float* out) {
  for (int s = 0; s < 8; ++s) {
    const ScaleMin integers = scale_min(block.scales, s);
    const float scale = half(block.d) * static_cast<float>(integers.scale);
    const float min = half(block.m) * static_cast<float>(integers.min);
    for (int l = 0; l < 32; ++l) {
      const int fifth = (block.high[l] >> s & 1) << 4;
      *out++ = scale * static_cast<float>(shared_nibble(block.q, s, l) | fifth) - min;
    }
  }
}

void decode(const Q6_K& block, float* out) {
  const float d = half(block.d);
  for (int i = 0; i < kLargeBlock; ++i) {
    const int side = i / 128;
    const int within = i % 128;
    const int low = block.low[side * 64 + within % 64] >> (within / 64 * 4) & 15;
    const int high = block.high[side * 32 + within % 32] >> (within / 32 * 2) & 3;
    const std::int8_t integer = block.scales[i / 16];
    const float scale = d * static_cast<float>(integer);
    out[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

void decode(const IQ4_XS& block, float* out) {
  const float d = half(block.d);
  for (int i = 0; i < kLargeBlock; ++i) {
    const int s = i / 32;
    const int q = block.q[s * 16 + i % 16] >> (i % 32 / 16 * 4) & 15;
    const float scale = d * static_cast<float>(iq4_scale(block, s) - 32);
    out[i] = scale * static_cast<float>(kLevels[q]);
  }
}

void decode(const Int8x32& block, float* out) {
  const float d = float_at(block.d);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(block.q[i]);
}

void decode(const Int4x32& block, float* out) {
  const float d = float_at(block.d);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(nibble(block.q, i) - block.zero);
}

void decode(const Fp8x32& block, float* out) {
  const float d = float_at(block.d);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * CodecE4M3::decode(block.q[i]);
}

template <class Block>
void decode_blocks(DType type, const std::byte* row, int cols, float* out) {
  for (int i = 0; i < cols; i += block_elements(type), row += sizeof(Block)) {
    Block block;
    std::memcpy(&block, row, sizeof block);  // may be unaligned
    decode(block, out + i);
  }
}

template <class Codec>
void decode_plain(const std::byte* row, int cols, float* out) {
  for (int i = 0; i < cols; ++i) {
    typename Codec::Stored stored;
    std::memcpy(&stored, row + static_cast<size_t>(i) * sizeof stored, sizeof stored);  // may be unaligned
    out[i] = Codec::decode(stored);
  }
}

}  // namespace

void decode_row(DType type, const std::byte* row, int cols, float* out) {
  CHECK(cols % block_elements(type) == 0);
  switch (type) {
    case DType::kF32:
      return decode_plain<CodecF32>(row, cols, out);
    case DType::kF16:
      return decode_plain<CodecF16>(row, cols, out);
    case DType::kBF16:
      return decode_plain<CodecBF16>(row, cols, out);
    case DType::kQ8_0:
      return decode_blocks<Q8_0>(type, row, cols, out);
    case DType::kQ4_0:
      return decode_blocks<Q4_0>(type, row, cols, out);
    case DType::kQ4_1:
      return decode_blocks<Q4_1>(type, row, cols, out);
    case DType::kQ5_0:
      return decode_blocks<Q5_0>(type, row, cols, out);
    case DType::kQ5_1:
      return decode_blocks<Q5_1>(type, row, cols, out);
    case DType::kIQ4_NL:
      return decode_blocks<IQ4_NL>(type, row, cols, out);
    case DType::kMXFP4:
      return decode_blocks<MXFP4>(type, row, cols, out);
    case DType::kQ2_K:
      return decode_blocks<Q2_K>(type, row, cols, out);
    case DType::kQ3_K:
      return decode_blocks<Q3_K>(type, row, cols, out);
    case DType::kQ4_K:
      return decode_blocks<Q4_K>(type, row, cols, out);
    case DType::kQ5_K:
      return decode_blocks<Q5_K>(type, row, cols, out);
    case DType::kQ6_K:
      return decode_blocks<Q6_K>(type, row, cols, out);
    case DType::kIQ4_XS:
      return decode_blocks<IQ4_XS>(type, row, cols, out);
    case DType::kInt8x32:
      return decode_blocks<Int8x32>(type, row, cols, out);
    case DType::kInt4x32:
      return decode_blocks<Int4x32>(type, row, cols, out);
    case DType::kFp8x32:
      return decode_blocks<Fp8x32>(type, row, cols, out);
  }
}

}  // namespace kvasir
