// Instructions of sm_80: mma.sync, ldmatrix, cp.async.
//
// m16n8k16: thread `lane` (g = lane / 4, t = lane % 4) holds
//   A [16][16]  (g, 2t..) (g + 8, 2t..) (g, 2t + 8..) (g + 8, 2t + 8..), two columns each
//   B [16][8]   column g, rows 2t, 2t + 1 and 2t + 8, 2t + 9
//   D [16][8]   (g, 2t) (g, 2t + 1) (g + 8, 2t) (g + 8, 2t + 1)
// A sum over k is one accumulator and ascending steps of 16, so it has the same bits in every kernel.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace kvasir::cuda {

struct HalfF16 {
  static __device__ std::uint32_t pack(float low, float high) {
    std::uint32_t out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
  }
  static __device__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ std::uint16_t encode(float value) { return __half_as_ushort(__float2half_rn(value)); }
  static __device__ float decode(unsigned stored) { return __half2float(__ushort_as_half(stored)); }
  static constexpr unsigned kExponent = 0x7c00;       // all ones: infinity or NaN
  static constexpr std::uint32_t kOnes = 0x3c003c00;  // 1, twice
};

struct HalfBF16 {
  static __device__ std::uint32_t pack(float low, float high) {
    std::uint32_t out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
  }
  static __device__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ std::uint16_t encode(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }
  static __device__ float decode(unsigned stored) { return __uint_as_float(stored << 16); }
  static constexpr unsigned kExponent = 0x7f80;
  static constexpr std::uint32_t kOnes = 0x3f803f80;
};

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

// Loads four 8 x 8 tiles of 16-bit numbers; lane i has the address of row i % 8 of tile i / 8.
__device__ inline void load_tiles(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_tiles_transposed(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// Copies 16 bytes from global to shared memory; bytes from `bytes` on become zeros.
__device__ inline void copy_async(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void copy_async_float(std::uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ inline float exp2_fast(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

}  // namespace kvasir::cuda
