// The workspace of dequantized blocks, reused by every launch.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/attention/prefill/dequant_kv.h"
#include "backend/cuda/runtime/device_memory.h"

namespace kvasir::cuda {

class DequantWorkspace {
 public:
  // A list of blocks on the device.
  struct BlockList {
    const DequantBlock* blocks = nullptr;
    int count = 0;
  };
  struct Heads {
    int first = 0;
    int count = 0;
  };
  // The dequantized blocks, for wgmma_attention().
  struct DequantizedKv {
    KvView view;
    const float* scales = nullptr;
  };

  static constexpr std::int64_t kMostBytes = 256 << 20;  // more only for a single head

  explicit DequantWorkspace(cudaStream_t stream) : stream_(stream) {}

  // The KV heads of so many blocks that fit: at least one.
  static int heads_at_once(const KvLayout& of, int blocks);
  // Enqueues the conversion; later kernels on the stream may read it.
  DequantizedKv dequantize(const KvView& from, const BlockList& list, Heads heads);
  // Addresses, for graph keys.
  const std::byte* numbers() const { return numbers_.data(); }
  const std::byte* scales() const { return scales_.data(); }

 private:
  cudaStream_t stream_;
  DeviceMemory numbers_, scales_;
};

}  // namespace kvasir::cuda
