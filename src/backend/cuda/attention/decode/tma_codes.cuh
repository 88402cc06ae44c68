// TMA loads of 8-bit KV codes: boxes with rows of 128 bytes, of which L2 fetches only what is asked for. Bulk copies
// without a tensor map fetch 256 bytes at a time.
#pragma once

#include "backend/cuda/arch/hopper.cuh"
#include "backend/cuda/arch/tensor_map.h"
#include "backend/cuda/attention/decode/tma_addresses.cuh"

namespace kvasir::cuda {

inline constexpr int kByteAlignment = 64;  // of blocks, and so of keys and values

// For boxes that begin at multiples of kRowBytes in the arena, and for those in between.
struct ByteMaps {
  CUtensorMap even;
  CUtensorMap odd;
};

// Boxes of `bytes` bytes. No box reaches past the arena's end.
inline ByteMaps make_byte_maps(const std::byte* arena, int bytes, TmaSwizzle swizzle) {
  const auto map = [&](const std::byte* begin) {  // as 16-bit numbers; TMA does not interpret them
    return make_tensor_map(
        {begin, kRowBytes / 2, 0x7fffffff, kRowBytes / 2, bytes / kRowBytes, Number::kF16, swizzle});
  };
  return {map(arena), map(arena + kByteAlignment)};
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ hopper::TmaBox byte_box(const ByteMaps& maps, std::int64_t byte) {
  return {byte % kRowBytes == 0 ? &maps.even : &maps.odd, 0, static_cast<int>(byte / kRowBytes)};
}

// Called by one lane. REQUIRES: `to` is aligned to 128 bytes, or to kBoxAlignment if swizzled.
__device__ __forceinline__ void load_bytes(void* to, const ByteMaps& maps, std::int64_t byte, std::uint32_t barrier) {
  hopper::tma_load(hopper::shared_address(to), byte_box(maps, byte), barrier, hopper::kEvictFirst);
}
__device__ __forceinline__ void prefetch_bytes(const ByteMaps& maps, std::int64_t byte) {
  hopper::tma_prefetch(byte_box(maps, byte));
}

#endif

}  // namespace kvasir::cuda
