// Host memory that the device reads and writes by itself.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "backend/buffer.h"
#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {

// Uninitialized. The owner waits for the device before it frees the memory.
inline Buffer pinned_memory(size_t bytes) {
  void* at = nullptr;
  check(cudaMallocHost(&at, std::max<size_t>(bytes, 1)), "allocating pinned memory");
  return {at, bytes, [](void* data, size_t) { cudaFreeHost(data); }};
}

}  // namespace kvasir::cuda
