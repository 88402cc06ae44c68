#include "backend/cuda/staging.h"

#include <algorithm>

#include "backend/cuda/cuda_check.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kFirstChunk = size_t{1} << 20;

}  // namespace

Staging::~Staging() {
  for (const Chunk& chunk : chunks_) {
    cudaFreeHost(chunk.host);
    cudaFree(chunk.device);
  }
}

void Staging::reset() {
  if (current_ == 0 && used_ == 0) return;
  check(cudaStreamSynchronize(stream_), "waiting for the device");
  current_ = 0;
  used_ = 0;
}

Staging::Room Staging::take(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  while (current_ < chunks_.size() && used_ + bytes > chunks_[current_].bytes) {
    ++current_;
    used_ = 0;
  }
  if (current_ == chunks_.size()) {
    Chunk chunk;
    chunk.bytes = std::max(bytes, chunks_.empty() ? kFirstChunk : chunks_.back().bytes * 2);
    check(cudaMallocHost(&chunk.host, chunk.bytes), "pinned memory");
    chunks_.push_back(chunk);
    check(cudaMalloc(&chunks_.back().device, chunk.bytes), "device memory for tables");
  }
  const Chunk& chunk = chunks_[current_];
  const Room room{chunk.host + used_, chunk.device + used_};
  used_ += bytes;
  return room;
}

void Staging::send(const Room& room, size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(room.device, room.host, bytes, cudaMemcpyHostToDevice, stream_), "sending tables");
}

}  // namespace kvasir::cuda
