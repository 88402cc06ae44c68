// Memory for weights, cut from chunks of huge pages. An expert's matrix is a megabyte or two: in memory of its own it
// has hardly a huge page, and a step that reads hundreds of them spends its time on looking addresses up.
#pragma once

#include <cstddef>
#include <mutex>

#include "backend/buffer.h"

namespace kvasir::cpu {

// Buffers outlive this, each by itself: a chunk is given back with the last of them. From any thread.
class WeightMemory {
 public:
  WeightMemory() = default;
  ~WeightMemory();
  WeightMemory(const WeightMemory&) = delete;
  WeightMemory& operator=(const WeightMemory&) = delete;

  // All zero, aligned to 64 bytes. What a chunk has no use for has memory of its own.
  Buffer allocate(size_t bytes);

 private:
  struct Chunk;

  static Chunk* map_chunk();  // none: the system has no such addresses left
  static void release(Chunk* chunk);
  static void free_part(void* data, size_t bytes);

  std::mutex mutex_;
  Chunk* open_ = nullptr;  // under mutex_; the others are only known to their buffers
};

}  // namespace kvasir::cpu
