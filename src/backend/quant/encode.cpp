#include "backend/quant/encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "backend/quant/blocks.h"
#include "base/check.h"
#include "layout/codec.h"

namespace kvasir {
namespace {

using namespace quant;

// The nearest integer in low … high, ties to even. Adding 1.5 * 2^23 leaves no bits for a fraction: that rounds, and
// takes two instructions where a call of the library would take most of the time of an encoder.
float level(float value, float low, float high) {
  constexpr float kNoFraction = 0x1.8p23F;
  return std::clamp(value, low, high) + kNoFraction - kNoFraction;
}

int clamped(float value, float low, float high) { return static_cast<int>(level(value, low, high)); }

// Of a scale; of one too small to have an inverse, zero, as of none.
float inverse(float value) { return std::fabs(value) < 0x1p-126F ? 0.0F : 1.0F / value; }

// As stored and read back: all that follows must count with the number the reader will have.
float rounded(float value, std::uint16_t& stored) {
  stored = CodecF16::encode(value);
  return CodecF16::decode(stored);
}

float furthest_from_zero(const float* x, int count) {
  float furthest = 0;
  for (int i = 0; i < count; ++i) {
    if (std::fabs(x[i]) > std::fabs(furthest)) furthest = x[i];
  }
  return furthest;
}

void encode(const float* x, Q8_0& block) {
  const float d = std::fabs(furthest_from_zero(x, kSmallBlock)) / 127.0F;
  block.d = CodecF16::encode(d);
  for (int i = 0; i < kSmallBlock; ++i) block.q[i] = static_cast<std::int8_t>(clamped(x[i] * inverse(d), -127, 127));
}

// The levels are -8 … 7: the number furthest from zero gets -8, whatever its sign, so d may be negative.
void encode(const float* x, Q4_0& block) {
  const float d = furthest_from_zero(x, kSmallBlock) / -8.0F;
  block.d = CodecF16::encode(d);
  const auto q = [&](int i) { return clamped(x[i] * inverse(d), -8, 7) + 8; };
  for (int j = 0; j < 16; ++j) block.q[j] = static_cast<std::uint8_t>(q(j) | q(j + 16) << 4);
}

// What a number's error counts: large weights matter more, none is free.
template <size_t N>
std::array<float, N> importance(const float* x) {
  float squares = 0;
  for (size_t i = 0; i < N; ++i) squares += x[i] * x[i];
  const float typical = std::sqrt(squares / static_cast<float>(N));
  std::array<float, N> out;
  for (size_t i = 0; i < N; ++i) out[i] = typical + std::fabs(x[i]);
  return out;
}

// x ~ scale q - min, with scale and min >= 0 and q in 0 … 15.
struct Affine {
  float scale = 0;
  float min = 0;
};

using SubBlock = std::array<float, 32>;

float error_of(const float* x, const SubBlock& weights, Affine fit) {
  const float to_level = inverse(fit.scale);
  float sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const float q = level((x[i] + fit.min) * to_level, 0, 15);
    const float off = fit.scale * q - fit.min - x[i];
    sum += weights[i] * off * off;
  }
  return sum;
}

// The weighted least-squares line through (q, x) for the levels that `guess` gives the numbers.
Affine refit(const float* x, const SubBlock& weights, Affine guess) {
  float w = 0;
  float wq = 0;
  float wqq = 0;
  float wx = 0;
  float wqx = 0;
  const float to_level = inverse(guess.scale);
  for (size_t i = 0; i < weights.size(); ++i) {
    const float q = level((x[i] + guess.min) * to_level, 0, 15);
    w += weights[i];
    wq += weights[i] * q;
    wqq += weights[i] * q * q;
    wx += weights[i] * x[i];
    wqx += weights[i] * q * x[i];
  }
  const float determinant = w * wqq - wq * wq;
  if (determinant <= 0) return guess;
  Affine fit{(w * wqx - wq * wx) / determinant, -(wqq * wx - wq * wqx) / determinant};
  if (fit.min < 0) fit = {wqq > 0 ? wqx / wqq : 0.0F, 0.0F};  // a min is stored without a sign
  return fit.scale > 0 ? fit : guess;
}

// Tries level distances around the one that just spans the numbers, refits each, and keeps the best.
Affine fit_affine(const float* x) {
  const SubBlock weights = importance<32>(x);
  const auto [lowest, highest] = std::minmax_element(x, x + weights.size());
  const float min = std::max(-*lowest, 0.0F);
  const float span = *highest + min;
  if (span <= 0) return {0, min};
  Affine best{span / 15.0F, min};
  float least = error_of(x, weights, best);
  for (int step = 0; step <= 20; ++step) {
    const Affine fit = refit(x, weights, {span / (14.0F + 0.1F * static_cast<float>(step)), min});
    const float error = error_of(x, weights, fit);
    if (error < least) {
      least = error;
      best = fit;
    }
  }
  return best;
}

void encode(const float* x, Q4_K& block) {
  std::array<Affine, 8> fits;
  Affine largest;
  for (size_t s = 0; s < fits.size(); ++s) {
    fits[s] = fit_affine(x + 32 * s);
    largest = {std::max(largest.scale, fits[s].scale), std::max(largest.min, fits[s].min)};
  }
  block = {};
  const float d = rounded(largest.scale / 63.0F, block.d);
  const float m = rounded(largest.min / 63.0F, block.m);
  for (int s = 0; s < 8; ++s) {
    const Affine& fit = fits[static_cast<size_t>(s)];
    const ScaleMin integers{clamped(fit.scale * inverse(d), 0, 63), clamped(fit.min * inverse(m), 0, 63)};
    set_scale_min(block.scales, s, integers);
    const float to_level = inverse(d * static_cast<float>(integers.scale));
    const float min = m * static_cast<float>(integers.min);
    for (int l = 0; l < 32; ++l) {
      const int q = clamped((x[32 * s + l] + min) * to_level, 0, 15);
      std::uint8_t& byte = block.q[s / 2 * 32 + l];
      byte = static_cast<std::uint8_t>(byte | q << (s % 2 * 4));
    }
  }
}

// x ~ scale q with q in -32 … 31; scale may be negative.
float fit_scale(const float* x) {
  const std::array<float, 16> weights = importance<16>(x);
  const float furthest = furthest_from_zero(x, 16);
  if (furthest == 0.0F) return 0;
  float best = 0;
  float most = 0;  // of what the levels explain: (sum w q x)^2 / (sum w q^2)
  for (int step = -9; step <= 9; ++step) {
    const float to_level = -(32.0F + 0.1F * static_cast<float>(step)) / furthest;
    float wqx = 0;
    float wqq = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const float q = level(x[i] * to_level, -32, 31);
      wqx += weights[i] * q * x[i];
      wqq += weights[i] * q * q;
    }
    if (wqq > 0 && wqx * wqx > most * wqq) {
      most = wqx * wqx / wqq;
      best = wqx / wqq;
    }
  }
  return best;
}

void encode(const float* x, Q6_K& block) {
  std::array<float, 16> scales;
  for (size_t s = 0; s < scales.size(); ++s) scales[s] = fit_scale(x + 16 * s);
  block = {};
  // The integers are -128 … 127: the largest scale gets -128.
  const float d = rounded(furthest_from_zero(scales.data(), 16) / -128.0F, block.d);
  for (int s = 0; s < 16; ++s) {
    const int scale = clamped(scales[static_cast<size_t>(s)] * inverse(d), -128, 127);
    block.scales[s] = static_cast<std::int8_t>(scale);
    const float to_level = inverse(d * static_cast<float>(scale));
    for (int l = 0; l < 16; ++l) {
      const int i = 16 * s + l;
      const int q = clamped(x[i] * to_level, -32, 31) + 32;
      const int within = i % 128;
      std::uint8_t& low = block.low[i / 128 * 64 + within % 64];
      std::uint8_t& high = block.high[i / 128 * 32 + within % 32];
      low = static_cast<std::uint8_t>(low | (q & 15) << (within / 64 * 4));
      high = static_cast<std::uint8_t>(high | q >> 4 << (within / 32 * 2));
    }
  }
}

template <class Block>
void encode_blocks(DType type, const float* values, int cols, std::byte* row) {
  for (int i = 0; i < cols; i += block_elements(type), row += sizeof(Block)) {
    Block block;
    encode(values + i, block);
    std::memcpy(row, &block, sizeof block);
  }
}

template <class Codec>
void encode_plain(const float* values, int cols, std::byte* row) {
  for (int i = 0; i < cols; ++i) {
    const typename Codec::Stored stored = Codec::encode(values[i]);
    std::memcpy(row + static_cast<size_t>(i) * sizeof stored, &stored, sizeof stored);
  }
}

}  // namespace

bool can_encode(DType type) {
  return !is_quantized(type) || type == DType::kQ8_0 || type == DType::kQ4_0 || type == DType::kQ4_K ||
         type == DType::kQ6_K;
}

void encode_row(DType type, const float* values, int cols, std::byte* row) {
  CHECK(can_encode(type) && cols % block_elements(type) == 0);
  switch (type) {
    case DType::kF32:
      return encode_plain<CodecF32>(values, cols, row);
    case DType::kF16:
      return encode_plain<CodecF16>(values, cols, row);
    case DType::kBF16:
      return encode_plain<CodecBF16>(values, cols, row);
    case DType::kQ8_0:
      return encode_blocks<Q8_0>(type, values, cols, row);
    case DType::kQ4_0:
      return encode_blocks<Q4_0>(type, values, cols, row);
    case DType::kQ4_K:
      return encode_blocks<Q4_K>(type, values, cols, row);
    case DType::kQ6_K:
      return encode_blocks<Q6_K>(type, values, cols, row);
    default:
      return;
  }
}

}  // namespace kvasir
