// The blocks of the quantized weight types, byte for byte as GGUF files hold them; and those of our own.
//
// `d` and `m` are binary16. Nibbles are packed in halves: the low nibbles of a run of bytes are one stretch of
// numbers, the high nibbles the next. A block in a file may be unaligned: copy it before reading its fields.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/weight_type.h"

namespace kvasir::quant {

inline constexpr int kSmallBlock = 32;   // numbers of a block of the *_0, *_1 and *_nl types, and mxfp4
inline constexpr int kLargeBlock = 256;  // numbers of a block of the *_k and *_xs types

struct Q8_0 {  // x[i] = d q[i]
  std::uint16_t d;
  std::int8_t q[32];
};

struct Q4_0 {  // x[i] = d (q - 8); q[j] holds x[j] low, x[j + 16] high
  std::uint16_t d;
  std::uint8_t q[16];
};

struct Q4_1 {  // x[i] = d q + m
  std::uint16_t d;
  std::uint16_t m;
  std::uint8_t q[16];
};

struct Q5_0 {  // x[i] = d (q - 16); bit i of `high` is the fifth bit of x[i]
  std::uint16_t d;
  std::uint8_t high[4];  // little endian
  std::uint8_t q[16];
};

struct Q5_1 {  // x[i] = d q + m
  std::uint16_t d;
  std::uint16_t m;
  std::uint8_t high[4];
  std::uint8_t q[16];
};

struct IQ4_NL {  // x[i] = d kLevels[q]
  std::uint16_t d;
  std::uint8_t q[16];
};
inline constexpr std::int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

struct MXFP4 {  // x[i] = half_exponent(e) kE2m1Doubled[q]
  std::uint8_t e;
  std::uint8_t q[16];
};
// What four bits with a sign, two bits of exponent and one of mantissa stand for, twice: then it is an integer.
inline constexpr std::int8_t kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128): half of what the stored exponent stands for. The two smallest are no normal numbers.
constexpr float half_exponent(std::uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000U << e : static_cast<std::uint32_t>(e - 1) << 23);
}

struct Q2_K {               // 16 sub-blocks of 16: x = d scale q - m min
  std::uint8_t scales[16];  // scale low, min high
  std::uint8_t q[64];       // per half of 128: four runs of 32 numbers, two bits each, lowest first
  std::uint16_t d;
  std::uint16_t m;
};

struct Q3_K {               // 16 sub-blocks of 16: x = d (scale - 32) (q - 4)
  std::uint8_t high[32];    // bit r of byte l: the third bit of x[32 r + l]
  std::uint8_t q[64];       // low two bits, as in Q2_K
  std::uint8_t scales[12];  // six bits each: see q3_scale
  std::uint16_t d;
};

struct Q4_K {  // 8 sub-blocks of 32: x = d scale q - m min
  std::uint16_t d;
  std::uint16_t m;
  std::uint8_t scales[12];  // scale and min, six bits each: see scale_min
  std::uint8_t q[128];      // 32 bytes for two sub-blocks, the first one low
};

struct Q5_K {  // as Q4_K, with a fifth bit
  std::uint16_t d;
  std::uint16_t m;
  std::uint8_t scales[12];
  std::uint8_t high[32];  // bit s of byte l: the fifth bit of number l of sub-block s
  std::uint8_t q[128];
};

struct Q6_K {             // 16 sub-blocks of 16: x = d scale (q - 32)
  std::uint8_t low[128];  // per half of 128: 64 bytes, low nibbles for x[0..63], high nibbles for x[64..127]
  std::uint8_t high[64];  // per half: 32 bytes; bits 2r and 2r+1 of byte l belong to x[32 r + l]
  std::int8_t scales[16];
  std::uint16_t d;
};

struct IQ4_XS {  // 8 sub-blocks of 32: x = d (scale - 32) kLevels[q]
  std::uint16_t d;
  std::uint8_t scales_high[2];  // two bits each, little endian
  std::uint8_t scales_low[4];   // four bits each, the first low
  std::uint8_t q[128];          // 16 bytes for each sub-block, packed in halves
};

struct Int8x32 {  // x[i] = d q[i]
  std::uint8_t d[4];
  std::int8_t q[32];
};

struct Int4x32 {  // x[i] = d (q - zero), packed in halves
  std::uint8_t d[4];
  std::uint8_t zero;
  std::uint8_t q[16];
};

struct Fp8x32 {  // x[i] = d e4m3(q[i])
  std::uint8_t d[4];
  std::uint8_t q[32];
};

// A float32 that may lie anywhere.
inline float float_at(const void* bytes) {
  float value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class Block>
constexpr bool fits(DType type) {
  return sizeof(Block) == block_bytes(type);
}
static_assert(fits<Q8_0>(DType::kQ8_0) && fits<Q4_0>(DType::kQ4_0) && fits<Q4_1>(DType::kQ4_1));
static_assert(fits<Q5_0>(DType::kQ5_0) && fits<Q5_1>(DType::kQ5_1) && fits<IQ4_NL>(DType::kIQ4_NL));
static_assert(fits<Q2_K>(DType::kQ2_K) && fits<Q3_K>(DType::kQ3_K) && fits<Q4_K>(DType::kQ4_K));
static_assert(fits<Q5_K>(DType::kQ5_K) && fits<Q6_K>(DType::kQ6_K) && fits<IQ4_XS>(DType::kIQ4_XS));
static_assert(fits<MXFP4>(DType::kMXFP4) && fits<Int8x32>(DType::kInt8x32) && fits<Int4x32>(DType::kInt4x32));
static_assert(fits<Fp8x32>(DType::kFp8x32));

struct ScaleMin {
  int scale;
  int min;
};

// Sub-block s of Q4_K and Q5_K. The first four keep theirs in the low six bits of bytes s and s + 4; the last four
// have their low four bits in byte s + 4, and their top two where those six bits left room.
constexpr ScaleMin scale_min(const std::uint8_t (&scales)[12], int s) {
  if (s < 4) return {scales[s] & 63, scales[s + 4] & 63};
  return {(scales[s + 4] & 15) | (scales[s - 4] >> 6) << 4, scales[s + 4] >> 4 | (scales[s] >> 6) << 4};
}

constexpr void set_scale_min(std::uint8_t (&scales)[12], int s, ScaleMin value) {
  const auto put = [&scales](int at, int bits) { scales[at] = static_cast<std::uint8_t>(scales[at] | bits); };
  if (s < 4) {
    put(s, value.scale);
    put(s + 4, value.min);
    return;
  }
  put(s + 4, (value.scale & 15) | (value.min & 15) << 4);
  put(s - 4, value.scale >> 4 << 6);
  put(s, value.min >> 4 << 6);
}

// Sub-block s of Q3_K, before 32 is taken off.
constexpr int q3_scale(const std::uint8_t (&scales)[12], int s) {
  const int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
  return low | (scales[8 + s % 4] >> (2 * (s / 4)) & 3) << 4;
}

// Sub-block s of IQ4_XS, before 32 is taken off.
constexpr int iq4_scale(const IQ4_XS& block, int s) {
  const int low = block.scales_low[s / 2] >> (s % 2 * 4) & 15;
  return low | (block.scales_high[s / 4] >> (s % 4 * 2) & 3) << 4;
}

}  // namespace kvasir::quant
