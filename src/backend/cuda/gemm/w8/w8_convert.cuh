// Exact conversion of 8-bit weights to bf16, four at a time.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "backend/cuda/gemm/w8/w8_layout.h"

namespace kvasir::cuda {

// Of a word of an atom: two k, and the two that are 8 further on.
struct Bf16Pairs {
  std::uint32_t low;
  std::uint32_t high;
};

__device__ __forceinline__ __nv_bfloat162 as_numbers(std::uint32_t bits) {
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}
__device__ __forceinline__ std::uint32_t as_bits(__nv_bfloat162 numbers) {
  return *reinterpret_cast<const std::uint32_t*>(&numbers);
}

// (a & b) | c in one instruction; with two constant masks the compiler emits two.
__device__ __forceinline__ std::uint32_t and_or(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}

// Integers: 128 plus the low seven bits is a bf16 with those as its fraction; minus 128, or 256 with the sign bit.
struct Int8ToBf16 {
  static __device__ __forceinline__ std::uint32_t lower_to_bf16(std::uint32_t bytes) {
    std::uint32_t offset;
    asm("mov.b32 %0, 0x43004300;" : "=r"(offset));  // 128, twice, in a register
    return as_bits(
        __hsub2(as_numbers(and_or(bytes, 0x007f007fU, offset)), as_numbers(and_or(bytes, 0x00800080U, offset))));
  }
  static __device__ __forceinline__ Bf16Pairs to_bf16(std::uint32_t word) {
    return {lower_to_bf16(word), lower_to_bf16(word >> 8)};
  }
};

// e4m3: exponent and fraction moved to where bf16 has them are too small by 2^120.
struct Fp8ToBf16 {
  static __device__ __forceinline__ std::uint32_t upper_to_bf16(std::uint32_t bytes) {
    constexpr std::uint32_t kFactor = 0x7b807b80U;  // 2^120
    const std::uint32_t magnitude = bytes >> 4 & 0x07f007f0U;
    return as_bits(__hmul2(as_numbers(and_or(bytes, 0x80008000U, magnitude)), as_numbers(kFactor)));
  }
  static __device__ __forceinline__ Bf16Pairs to_bf16(std::uint32_t word) {
    return {upper_to_bf16(word << 8), upper_to_bf16(word)};
  }
};

}  // namespace kvasir::cuda
