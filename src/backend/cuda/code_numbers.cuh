// Codes of weights in 8 bits as the bf16 numbers they are, four at a time: exact.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "backend/cuda/code_layout.h"

namespace kvasir::cuda {

// Of a word of a unit: two k, and the two 8 further on.
struct WidePairs {
  std::uint32_t low;
  std::uint32_t high;
};

__device__ __forceinline__ __nv_bfloat162 as_numbers(std::uint32_t bits) {
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}
__device__ __forceinline__ std::uint32_t as_bits(__nv_bfloat162 numbers) {
  return *reinterpret_cast<const std::uint32_t*>(&numbers);
}

// (a & b) | c in one instruction: of two masks that it knows, the compiler would make two.
__device__ __forceinline__ std::uint32_t and_or(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}

// Integers. 128 and the lower seven bits are a bf16 number with those as its fraction, and so are 128 and 256 with
// the sign's bit.
struct Int8Codes {
  static __device__ __forceinline__ std::uint32_t widen_lower(std::uint32_t bytes) {
    std::uint32_t offset;
    asm("mov.b32 %0, 0x43004300;" : "=r"(offset));  // 128, twice, in a register
    return as_bits(
        __hsub2(as_numbers(and_or(bytes, 0x007f007fU, offset)), as_numbers(and_or(bytes, 0x00800080U, offset))));
  }
  static __device__ __forceinline__ WidePairs widen(std::uint32_t word) {
    return {widen_lower(word), widen_lower(word >> 8)};
  }
};

// e4m3. Exponent and fraction where bf16 has them make a number that is too small by 2^120.
struct Fp8Codes {
  static __device__ __forceinline__ std::uint32_t widen_upper(std::uint32_t bytes) {
    constexpr std::uint32_t kFactor = 0x7b807b80U;  // 2^120
    const std::uint32_t magnitude = bytes >> 4 & 0x07f007f0U;
    return as_bits(__hmul2(as_numbers(and_or(bytes, 0x80008000U, magnitude)), as_numbers(kFactor)));
  }
  static __device__ __forceinline__ WidePairs widen(std::uint32_t word) {
    return {widen_upper(word << 8), widen_upper(word)};
  }
};

}  // namespace kvasir::cuda
