// A ring of pinned memory for small uploads. Data is copied into it, sent along the stream, and valid for later
// kernels until the next upload after reset().
//
// The device has one copy of the memory, reused in stream order. The host has kSlots copies, so that a batch is
// prepared while earlier ones are in flight. A slot is free again when its event has fired. Without an event it is
// free when sampled tokens arrived that were computed after everything in it: so a decode step needs no event.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "backend/buffer.h"
#include "backend/cuda/runtime/cuda_stream.h"
#include "backend/cuda/runtime/device_memory.h"

namespace kvasir::cuda {

class Staging {
 public:
  explicit Staging(cudaStream_t stream) : stream_(stream) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Begins the next slot. Waits for the uploads of kSlots - 1 resets ago.
  void reset();

  // Holds all uploads back until release(), which sends them in one copy. Regions are rounded up to powers of two
  // meanwhile, so that a growing table rarely moves the regions after it.
  void hold() { held_ = true; }
  bool held() const { return held_; }
  void release();

  // Returns the device address of the copy.
  template <class T>
  T* send(std::span<const T> values) {
    const Region region = take(values.size_bytes());
    std::memcpy(region.host, values.data(), values.size_bytes());
    send(region, values.size_bytes());
    return reinterpret_cast<T*>(region.device);
  }

  // Memory that the caller fills, then passes to send().
  struct Region {
    std::byte* host = nullptr;  // pinned
    std::byte* device = nullptr;
  };
  Region take(size_t bytes);
  void send(const Region& region, size_t bytes);

  // Says that the host will observe something that the stream computes after all uploads of this slot. Returns the
  // number to pass to was_seen() then; any later slot's number implies it. REQUIRES: that work is on the stream.
  std::uint64_t will_be_seen();
  void was_seen(std::uint64_t number) { seen_ = std::max(seen_, number); }

 private:
  static constexpr size_t kSlots = 4;
  struct Slot {
    Event sent;
    std::uint64_t number = 1;   // ascending
    bool will_be_seen = false;  // instead of an event
  };
  void wait_for(const Slot& slot) const;
  struct Segment {
    std::array<Buffer, kSlots> host;  // pinned
    DeviceMemory device;
    size_t used = 0;
  };

  cudaStream_t stream_;
  std::vector<Segment> segments_;
  std::array<Slot, kSlots> slots_;
  size_t slot_ = 0;         // current one, of the host copies
  std::uint64_t seen_ = 0;  // the last slot number that is known to be done
  size_t current_ = 0;      // segment
  bool held_ = false;
};

}  // namespace kvasir::cuda
