// Host memory that blocks of paused sequences are saved to, in chunks: once taken they are kept for whoever is saved
// next, since memory that a device reaches without help is slow to get.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backend/kv_storage.h"

namespace kvasir {

class HostRoom {
 public:
  // The storage outlives this. `bytes` bound what is saved; chunks that are not full come on top, one for each who
  // saves.
  HostRoom(KvStorage& storage, std::uint64_t bytes) : storage_(storage), bytes_(bytes) {}
  ~HostRoom() {
    if (!free_.empty()) storage_.finish();  // copies may be on their way
  }
  HostRoom(const HostRoom&) = delete;
  HostRoom& operator=(const HostRoom&) = delete;

  std::uint64_t used() const { return used_; }
  std::uint64_t size() const { return bytes_; }
  std::uint64_t left() const { return bytes_ - used_; }

 private:
  friend class SavedBytes;
  static constexpr size_t kChunk = size_t{16} << 20;

  Buffer take(size_t bytes) {
    for (Buffer& chunk : free_) {
      if (chunk.bytes() < bytes) continue;
      std::swap(chunk, free_.back());
      Buffer out = std::move(free_.back());
      free_.pop_back();
      return out;
    }
    return storage_.allocate_on_host(std::max(bytes, kChunk));
  }

  KvStorage& storage_;
  std::uint64_t bytes_;
  std::uint64_t used_ = 0;
  std::vector<Buffer> free_;
};

// What one sequence has of it; given back when this goes.
class SavedBytes {
 public:
  SavedBytes(std::shared_ptr<HostRoom> room, std::uint64_t bytes) : room_(std::move(room)), bytes_(bytes) {
    room_->used_ += bytes_;
  }
  ~SavedBytes() {
    room_->used_ -= bytes_;
    for (Buffer& chunk : chunks_) room_->free_.push_back(std::move(chunk));
  }
  SavedBytes(const SavedBytes&) = delete;
  SavedBytes& operator=(const SavedBytes&) = delete;

  // The next so many bytes, in one piece.
  std::byte* place(size_t bytes) {
    if (chunks_.empty() || filled_ + bytes > chunks_.back().bytes()) {
      chunks_.push_back(room_->take(bytes));
      filled_ = 0;
    }
    return chunks_.back().as<std::byte>() + std::exchange(filled_, filled_ + bytes);
  }

 private:
  std::shared_ptr<HostRoom> room_;
  std::uint64_t bytes_;
  std::vector<Buffer> chunks_;
  size_t filled_ = 0;  // of the last
};

}  // namespace kvasir
