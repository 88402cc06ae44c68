// Host memory that blocks of paused sequences are saved to: an arena that grows by chunks and is never larger than it
// may be. Savers share chunks; what one gives back, the next one takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backend/kv_storage.h"

namespace kvasir {

// INVARIANTS: the chunks together have at most size() bytes. A chunk's free pieces lie apart from each other, and
// with what is allocated they are all of it.
class HostPool {
 public:
  // The storage outlives this. `bytes` bound the memory that is taken, not only what is saved in it.
  HostPool(KvStorage& storage, std::uint64_t bytes) : storage_(storage), bytes_(bytes) {}
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // So many bytes in one piece; null where the bound, other pieces or the system leave none.
  std::byte* allocate(size_t bytes);
  void free(std::byte* piece, size_t bytes);

  std::uint64_t used() const { return used_; }    // allocated
  std::uint64_t taken() const { return taken_; }  // from the system
  std::uint64_t size() const { return bytes_; }
  std::uint64_t left() const { return bytes_ - used_; }

 private:
  // Large enough for few calls of a system that is slow to give memory which a device reaches without help.
  static constexpr size_t kChunk = size_t{16} << 20;

  struct Chunk {
    Buffer memory;
    std::map<size_t, size_t> free;  // by where a piece begins: its bytes

    bool empty() const { return free.size() == 1 && free.begin()->second == memory.bytes(); }
  };

  static std::byte* take_from(Chunk& chunk, size_t bytes);
  bool add_chunk(size_t bytes);
  void give_back_chunks();

  KvStorage& storage_;
  std::uint64_t bytes_;
  std::uint64_t used_ = 0;
  std::uint64_t taken_ = 0;
  std::vector<Chunk> chunks_;
};

// What one sequence has of it; given back when this goes.
class HostSpan {
 public:
  explicit HostSpan(std::shared_ptr<HostPool> pool) : pool_(std::move(pool)) {}
  ~HostSpan() {
    for (const Piece& piece : pieces_) pool_->free(piece.at, piece.bytes);
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

  std::byte* place(size_t bytes);  // null: there is no room

 private:
  struct Piece {
    std::byte* at = nullptr;
    size_t bytes = 0;
  };

  std::shared_ptr<HostPool> pool_;
  std::vector<Piece> pieces_;
};

}  // namespace kvasir
