#include "backend/cuda/staging.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/pinned_memory.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kFirstChunk = size_t{1} << 20;

}  // namespace

void Staging::reset() {
  held_ = false;
  if (current_ == 0 && (chunks_.empty() || chunks_[0].used == 0)) return;
  const std::uint64_t number = turns_[turn_].number;
  if (!turns_[turn_].will_be_seen) turns_[turn_].sent.mark(stream_);
  turn_ = (turn_ + 1) % kTurns;
  wait_for(turns_[turn_]);
  turns_[turn_].number = number + 1;
  turns_[turn_].will_be_seen = false;
  current_ = 0;
  for (Chunk& chunk : chunks_) chunk.used = 0;
}

void Staging::wait_for(const Turn& turn) const {
  if (!turn.will_be_seen) return turn.sent.wait();
  if (turn.number > seen_) check(cudaStreamSynchronize(stream_), "waiting for what was sent");
}

std::uint64_t Staging::will_be_seen() {
  turns_[turn_].will_be_seen = true;
  return turns_[turn_].number;
}

Staging::Room Staging::take(size_t bytes) {
  turns_[turn_].will_be_seen = false;  // not this, too
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (held_) bytes = std::bit_ceil(bytes);
  while (current_ < chunks_.size() && chunks_[current_].used + bytes > chunks_[current_].device.size()) ++current_;
  if (current_ == chunks_.size()) {
    const size_t size = std::max(bytes, chunks_.empty() ? kFirstChunk : chunks_.back().device.size() * 2);
    Chunk chunk;
    for (Buffer& host : chunk.host) host = pinned_memory(size);
    chunk.device = DeviceMemory(size);
    chunks_.push_back(std::move(chunk));
  }
  Chunk& chunk = chunks_[current_];
  const Room room{chunk.host[turn_].as() + chunk.used, chunk.device.data() + chunk.used};
  chunk.used += bytes;
  return room;
}

void Staging::send(const Room& room, size_t bytes) {
  if (bytes == 0 || held_) return;
  check(cudaMemcpyAsync(room.device, room.host, bytes, cudaMemcpyHostToDevice, stream_), "sending tables");
}

void Staging::release() {
  held_ = false;
  for (const Chunk& chunk : chunks_) send({chunk.host[turn_].as(), chunk.device.data()}, chunk.used);
}

}  // namespace kvasir::cuda
