// Device memory with an owner.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "backend/cuda/runtime/cuda_check.h"

namespace kvasir::cuda {

struct FreeDevice {
  void operator()(std::byte* at) const { cudaFree(at); }
};

// Uninitialized bytes, aligned to 256.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes) : bytes_(bytes) {
    void* at = nullptr;
    check(cudaMalloc(&at, bytes == 0 ? 1 : bytes), "allocating device memory");
    at_.reset(static_cast<std::byte*>(at));
  }

  std::byte* data() const { return at_.get(); }
  size_t size() const { return bytes_; }

  // Holds at least this many bytes afterwards; the old contents are lost. Work in flight may still read the old
  // memory: cudaFree waits for the device.
  void grow_to(size_t bytes) {
    if (bytes <= bytes_) return;
    *this = DeviceMemory();
    *this = DeviceMemory(bytes);
  }

 private:
  std::unique_ptr<std::byte, FreeDevice> at_;
  size_t bytes_ = 0;
};

}  // namespace kvasir::cuda
