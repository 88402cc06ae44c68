// Room for widened blocks: those of one launch at a time, the next one's in the same place.
#pragma once

#include <cuda_runtime.h>

#include <array>

#include "backend/cuda/device_memory.h"
#include "backend/cuda/wide_blocks.h"

namespace kvasir::cuda {

class WideRoom {
 public:
  // Blocks that are numbers of a list on the device.
  struct List {
    const WideBlock* blocks = nullptr;
    int count = 0;
  };
  struct Heads {
    int first = 0;
    int count = 0;
  };
  // As prompt_attention() takes them.
  struct Wide {
    KvView view;
    const float* scales = nullptr;
  };

  static constexpr std::int64_t kMostBytes = 256 << 20;  // but for those of a single head

  explicit WideRoom(cudaStream_t stream) : stream_(stream) {}

  // KV heads of so many blocks that there is room for: one at least.
  static int heads_at_once(const KvLayout& of, int blocks);
  // For kernels behind it on the stream.
  Wide widen(const KvView& from, const List& list, Heads heads);
  // Where it all lies.
  std::array<const void*, 2> at() const { return {numbers_.data(), scales_.data()}; }

 private:
  cudaStream_t stream_;
  DeviceMemory numbers_, scales_;
};

}  // namespace kvasir::cuda
