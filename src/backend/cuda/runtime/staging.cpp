#include "backend/cuda/runtime/staging.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "backend/cuda/runtime/cuda_check.h"
#include "backend/cuda/runtime/pinned_memory.h"

namespace kvasir::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kFirstSegment = size_t{1} << 20;

}  // namespace

void Staging::reset() {
  held_ = false;
  if (current_ == 0 && (segments_.empty() || segments_[0].used == 0)) return;
  const std::uint64_t number = slots_[slot_].number;
  if (!slots_[slot_].will_be_seen) slots_[slot_].sent.mark(stream_);
  slot_ = (slot_ + 1) % kSlots;
  wait_for(slots_[slot_]);
  slots_[slot_].number = number + 1;
  slots_[slot_].will_be_seen = false;
  current_ = 0;
  for (Segment& segment : segments_) segment.used = 0;
}

void Staging::wait_for(const Slot& slot) const {
  if (!slot.will_be_seen) return slot.sent.wait();
  if (slot.number > seen_) check(cudaStreamSynchronize(stream_), "waiting for what was sent");
}

std::uint64_t Staging::will_be_seen() {
  slots_[slot_].will_be_seen = true;
  return slots_[slot_].number;
}

Staging::Region Staging::take(size_t bytes) {
  slots_[slot_].will_be_seen = false;  // this upload is not covered yet
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (held_ && bytes > 0) bytes = std::bit_ceil(bytes);  // of 0 it is 1, which would take the next region's alignment
  while (current_ < segments_.size() && segments_[current_].used + bytes > segments_[current_].device.size())
    ++current_;
  if (current_ == segments_.size()) {
    const size_t size = std::max(bytes, segments_.empty() ? kFirstSegment : segments_.back().device.size() * 2);
    Segment segment;
    for (Buffer& host : segment.host) host = pinned_memory(size);
    segment.device = DeviceMemory(size);
    segments_.push_back(std::move(segment));
  }
  Segment& segment = segments_[current_];
  const Region region{segment.host[slot_].as() + segment.used, segment.device.data() + segment.used};
  segment.used += bytes;
  return region;
}

void Staging::send(const Region& region, size_t bytes) {
  if (bytes == 0 || held_) return;
  check(cudaMemcpyAsync(region.device, region.host, bytes, cudaMemcpyHostToDevice, stream_), "sending tables");
}

void Staging::release() {
  held_ = false;
  for (const Segment& segment : segments_) send({segment.host[slot_].as(), segment.device.data()}, segment.used);
}

}  // namespace kvasir::cuda
