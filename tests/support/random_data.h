// Deterministic noise for tests.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "backend/tensor.h"
#include "base/hash.h"
#include "layout/codec.h"

namespace kvasir::testing {

// Roughly normal, mean 0, deviation 1.
inline float noise(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t bits = mix(seed, i, 3);
  float sum = 0;
  for (int k = 0; k < 4; ++k) sum += static_cast<float>(bits >> (16 * k) & 0xffff) / 65535.0F - 0.5F;
  return sum * 1.732F;
}

inline std::vector<float> noise_vector(size_t count, std::uint64_t seed) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = noise(seed, i);
  return out;
}

// ActivationPrecision that own their memory.
struct OwnedMatrix {
  OwnedMatrix(int rows, int cols, std::uint64_t seed = 0)
      : values(seed == 0 ? std::vector<float>(static_cast<size_t>(rows * cols))
                         : noise_vector(static_cast<size_t>(rows * cols), seed)),
        view{values.data(), rows, cols, cols} {}

  std::vector<float> values;
  Matrix view;
};

// A weight as it would lie in a file.
struct OwnedWeight {
  OwnedWeight(int rows, int cols, DType dtype, std::uint64_t seed) {
    if (is_quantized(dtype)) {
      make_blocks(static_cast<size_t>(rows) * row_bytes(dtype, cols), dtype, seed);
      view = {bytes, dtype, rows, cols};
      return;
    }
    for (int i = 0; i < rows * cols; ++i) {
      const float value = noise(seed, static_cast<std::uint64_t>(i));
      const auto put = [this](auto stored) {
        const size_t at = bytes.size();
        bytes.resize(at + sizeof stored);
        std::memcpy(bytes.data() + at, &stored, sizeof stored);
      };
      if (dtype == DType::kF32) put(value);
      if (dtype == DType::kF16) put(CodecF16::encode(value));
      if (dtype == DType::kBF16) put(CodecBF16::encode(value));
    }
    view = {bytes, dtype, rows, cols};
  }

  std::vector<std::byte> bytes;
  HostWeight view;

 private:
  // Blocks with any codes and small scales: everything that a file may hold, not only what an encoder writes.
  void make_blocks(size_t size, DType dtype, std::uint64_t seed) {
    bytes.resize(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix(seed, i, 5));
    const auto [at, halves] = scales_of(dtype);
    for (size_t block = 0; block < size; block += block_bytes(dtype)) {
      if (dtype == DType::kMXFP4) bytes[block] = static_cast<std::byte>(116 + mix(seed + 1, block, 5) % 6);
      if (!in_gguf(dtype)) put_own(bytes.data() + block, dtype, 0.01F * noise(seed + 1, block));
      for (size_t h = 0; h < halves; ++h) {
        const std::uint16_t scale = CodecF16::encode(0.01F * noise(seed + 1, block + h));
        std::memcpy(bytes.data() + block + at + 2 * h, &scale, sizeof scale);
      }
    }
  }

  // A scale of float32; a zero of its own; no codes that are no numbers.
  static void put_own(std::byte* block, DType dtype, float scale) {
    std::memcpy(block, &scale, sizeof scale);
    if (dtype == DType::kInt4x32) block[4] &= std::byte{15};
    for (size_t i = 4; dtype == DType::kFp8x32 && i < block_bytes(dtype); ++i) {
      if ((block[i] & std::byte{0x7f}) == std::byte{0x7f}) block[i] ^= std::byte{1};
    }
  }

  struct Scales {
    size_t at = 0;      // in a block
    size_t halves = 1;  // numbers of binary16 there
  };
  static Scales scales_of(DType dtype) {
    switch (dtype) {
      case DType::kQ4_1:
      case DType::kQ5_1:
      case DType::kQ4_K:
      case DType::kQ5_K:
        return {0, 2};
      case DType::kQ2_K:
        return {80, 2};
      case DType::kQ3_K:
        return {108, 1};
      case DType::kQ6_K:
        return {208, 1};
      case DType::kMXFP4:
      case DType::kInt8x32:
      case DType::kInt4x32:
      case DType::kFp8x32:
        return {0, 0};
      default:
        return {0, 1};
    }
  }
};

// The largest difference, as a share of the largest expected number.
inline double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double worst = 0;
  double largest = 1e-30;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return worst / largest;
}

}  // namespace kvasir::testing
