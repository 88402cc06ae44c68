#include "backend/cpu/weight_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace kvasir::cpu {
namespace {

constexpr size_t kChunkBytes = size_t{64} << 20;  // a power of two: a chunk lies at a multiple of it
constexpr size_t kLargest = kChunkBytes / 4;      // has huge pages by itself
constexpr size_t kAlignment = 64;

}  // namespace

// At the beginning of its own memory, where every part of it finds it.
struct WeightMemory::Chunk {
  std::atomic<std::int64_t> users = 1;  // its buffers, and the WeightMemory while it is open
  size_t used = kAlignment;
};

WeightMemory::~WeightMemory() {
  if (open_ != nullptr) release(open_);
}

// Twice the addresses, of which those before and behind a multiple of the size are given back.
WeightMemory::Chunk* WeightMemory::map_chunk() {
  void* mapped =
      ::mmap(nullptr, 2 * kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto first = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t at = (first + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  if (at > first) ::munmap(mapped, at - first);
  if (const std::uintptr_t rest = first + kChunkBytes - at; rest > 0) {
    ::munmap(reinterpret_cast<void*>(at + kChunkBytes), rest);
  }
  auto* chunk = reinterpret_cast<void*>(at);
  ::madvise(chunk, kChunkBytes, MADV_HUGEPAGE);  // not having it is no error
  return new (chunk) Chunk;
}

void WeightMemory::release(Chunk* chunk) {
  if (chunk->users.fetch_sub(1) == 1) ::munmap(chunk, kChunkBytes);
}

void WeightMemory::free_part(void* data, size_t /*bytes*/) {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  release(reinterpret_cast<Chunk*>(at / kChunkBytes * kChunkBytes));
}

Buffer WeightMemory::allocate(size_t bytes) {
  const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (size == 0 || size > kLargest) return allocate_host(bytes);
  const std::lock_guard lock(mutex_);
  if (open_ == nullptr || open_->used + size > kChunkBytes) {
    if (open_ != nullptr) release(open_);
    open_ = map_chunk();
    if (open_ == nullptr) return allocate_host(bytes);  // which says what the system refused
  }
  std::byte* data = reinterpret_cast<std::byte*>(open_) + open_->used;
  open_->used += size;
  open_->users.fetch_add(1);
  return {data, bytes, free_part};
}

}  // namespace kvasir::cpu
