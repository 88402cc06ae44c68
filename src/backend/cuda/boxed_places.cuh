// Blocks of f16 and bf16 as the copy engine of Hopper brings them: K, or V, of one block and head is a box.
#pragma once

#include "backend/cuda/attention_args.h"

namespace kvasir::cuda {

inline constexpr int kRowBytes = 128;  // of a box

// Where boxes may begin in shared memory, as swizzling wants it. Kernels ask for so many bytes more than their rooms
// take, and begin at the first that is a multiple.
inline constexpr int kBoxAlignment = 1024;
template <class Room>
__device__ Room* room_for_boxes(uint4* shared) {
  const auto begin = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  return reinterpret_cast<Room*>(reinterpret_cast<std::byte*>(shared) +
                                 (kBoxAlignment - begin % kBoxAlignment) % kBoxAlignment);
}

// Both as they lie in memory, cut into rows of 128 bytes whose chunks the copy engine swizzles.
template <int kDim>
struct BoxedPlaces {
  static __device__ int swizzled(int byte) { return byte ^ (byte >> 7 & 7) << 4; }
  static __device__ int k_chunk(int dim, int half) { return swizzled(dim * kBlockOfTile * 2 + half * 16); }
  static __device__ int v_chunk(int slot, int chunk) { return swizzled(slot * kDim * 2 + chunk * 16); }
};

// Values by halves of 64 numbers, each [16 tokens][64]: so do the eight tokens that are read together lie in different
// banks.
template <int kDim>
struct HalvedPlaces : BoxedPlaces<kDim> {
  static __device__ int v_chunk(int slot, int chunk) {
    return chunk / 8 * kBlockOfTile * kRowBytes + BoxedPlaces<kDim>::swizzled(slot * kRowBytes + chunk % 8 * 16);
  }
};

}  // namespace kvasir::cuda
