// Codes of a block and head as the copy engine of Hopper brings them: in boxes, rows of 128 bytes, of which the
// second-level cache fetches no more than is asked for. Copies without a map fetch 256 bytes at a time.
#pragma once

#include "backend/cuda/boxed_places.cuh"
#include "backend/cuda/hopper.cuh"
#include "backend/cuda/tensor_map.h"

namespace kvasir::cuda {

inline constexpr int kCodeAlignment = 64;  // of blocks, and so of keys and values

// Of boxes that begin at multiples of kRowBytes from the arena's first byte, and of those that begin in between.
struct CodeMaps {
  CUtensorMap even;
  CUtensorMap odd;
};

// Boxes of so many bytes. No box lies behind the arena's end.
inline CodeMaps make_code_maps(const std::byte* arena, int bytes, BoxSwizzle swizzle) {
  const auto map = [&](const std::byte* begin) {  // bytes, two at a time: the copy engine looks at none of them
    return make_tensor_map(
        {begin, kRowBytes / 2, 0x7fffffff, kRowBytes / 2, bytes / kRowBytes, Number::kF16, swizzle});
  };
  return {map(arena), map(arena + kCodeAlignment)};
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ hopper::BoxAt code_box(const CodeMaps& maps, std::int64_t byte) {
  return {byte % kRowBytes == 0 ? &maps.even : &maps.odd, 0, static_cast<int>(byte / kRowBytes)};
}

// By one lane. REQUIRES: `to` is aligned to 128 bytes, or to kBoxAlignment where chunks are permuted.
__device__ __forceinline__ void copy_codes(void* to, const CodeMaps& maps, std::int64_t byte, std::uint32_t barrier) {
  hopper::copy_box(hopper::shared_address(to), code_box(maps, byte), barrier, hopper::kEvictFirst);
}
__device__ __forceinline__ void fetch_codes(const CodeMaps& maps, std::int64_t byte) {
  hopper::fetch_box(code_box(maps, byte));
}

#endif

}  // namespace kvasir::cuda
