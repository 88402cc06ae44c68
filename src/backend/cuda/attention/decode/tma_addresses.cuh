// Where TMA puts blocks of f16 and bf16 in shared memory. A box is K, or V, of one block and head.
#pragma once

#include "backend/cuda/attention/attention_args.h"

namespace kvasir::cuda {

inline constexpr int kRowBytes = 128;  // of a box

// The alignment of swizzled boxes in shared memory. Kernels ask for so many bytes more, and align themselves.
inline constexpr int kBoxAlignment = 1024;
template <class Smem>
__device__ Smem* align_smem(uint4* shared) {
  const auto begin = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  return reinterpret_cast<Smem*>(reinterpret_cast<std::byte*>(shared) +
                                 (kBoxAlignment - begin % kBoxAlignment) % kBoxAlignment);
}

// K and V as they lie in memory, in rows of 128 bytes whose 16-byte vectors TMA swizzles.
template <int kDim>
struct TmaSmemLayout {
  static __device__ int swizzled(int byte) { return byte ^ (byte >> 7 & 7) << 4; }
  static __device__ int k_vec(int dim, int half) { return swizzled(dim * kBlockOfTile * 2 + half * 16); }
  static __device__ int v_vec(int token_in_block, int vec) { return swizzled(token_in_block * kDim * 2 + vec * 16); }
};

// V in halves of 64 numbers, each [16 tokens][64], so that the eight tokens that are read together lie in different
// banks.
template <int kDim>
struct HalvedSmemLayout : TmaSmemLayout<kDim> {
  static __device__ int v_vec(int token_in_block, int vec) {
    return vec / 8 * kBlockOfTile * kRowBytes +
           TmaSmemLayout<kDim>::swizzled(token_in_block * kRowBytes + vec % 8 * 16);
  }
};

}  // namespace kvasir::cuda
