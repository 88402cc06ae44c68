// Small things on their way to the device: copied into pinned memory, sent along the stream, and there for the
// kernels behind it until what is sent after the next reset().
//
// On the device the same room is used again and again, in the order of the stream. On the host there are some, in
// turn: what a batch needs, and what is sent on its own before it, is made ready while the batch before it is still
// on its way. A turn is over when its event says so, or, without any, when the tokens have come of a draw that was
// behind all that it sent: a decode step puts no event on the stream, and asks for none.
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
#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/device_memory.h"

namespace kvasir::cuda {

class Staging {
 public:
  explicit Staging(cudaStream_t stream) : stream_(stream) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Takes the room of what was sent before again. Waits for what was sent kTurns - 1 resets ago.
  void reset();

  // From now on nothing leaves before release(), which sends everything in one message. Rooms are as large as a power
  // of two meanwhile: what comes behind a table that grows stays where it is, most of the time.
  void hold() { held_ = true; }
  bool held() const { return held_; }
  void release();

  // Where it will lie on the device.
  template <class T>
  T* send(std::span<const T> values) {
    const Room room = take(values.size_bytes());
    std::memcpy(room.host, values.data(), values.size_bytes());
    send(room, values.size_bytes());
    return reinterpret_cast<T*>(room.device);
  }

  // Room to be filled by the caller, who sends it then.
  struct Room {
    std::byte* host = nullptr;  // pinned
    std::byte* device = nullptr;
  };
  Room take(size_t bytes);
  void send(const Room& room, size_t bytes);

  // All that was sent in this turn is used on the stream before something that the host will see: the number to tell
  // then, or any later one's. REQUIRES: that is on the stream.
  std::uint64_t will_be_seen();
  void was_seen(std::uint64_t number) { seen_ = std::max(seen_, number); }

 private:
  static constexpr size_t kTurns = 4;
  struct Turn {
    Event sent;
    std::uint64_t number = 1;   // ascending
    bool will_be_seen = false;  // and sent was not marked
  };
  void wait_for(const Turn& turn) const;
  struct Chunk {
    std::array<Buffer, kTurns> host;  // pinned
    DeviceMemory device;
    size_t used = 0;
  };

  cudaStream_t stream_;
  std::vector<Chunk> chunks_;
  std::array<Turn, kTurns> turns_;
  size_t turn_ = 0;         // of those on the host
  std::uint64_t seen_ = 0;  // the last turn of which all is known to be over
  size_t current_ = 0;      // chunk
  bool held_ = false;
};

}  // namespace kvasir::cuda
