#include "engine/schedule/host_pool.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "base/check.h"
#include "base/error.h"

namespace kvasir {

HostPool::~HostPool() {
  if (!chunks_.empty()) storage_.finish();  // copies may be on their way
}

std::byte* HostPool::take_from(Chunk& chunk, size_t bytes) {
  for (auto piece = chunk.free.begin(); piece != chunk.free.end(); ++piece) {
    const auto [at, size] = *piece;
    if (size < bytes) continue;
    chunk.free.erase(piece);
    if (size > bytes) chunk.free.emplace(at + bytes, size - bytes);
    return chunk.memory.as<std::byte>() + at;
  }
  return nullptr;
}

// False: it would be too much, or the system has no more. Whoever wanted it can be computed again instead.
bool HostPool::add_chunk(size_t bytes) {
  const std::uint64_t may = bytes_ - taken_;
  if (bytes > may) return false;
  const auto size = static_cast<size_t>(std::clamp<std::uint64_t>(kChunk, bytes, may));
  try {
    Chunk chunk{storage_.allocate_on_host(size), {{0, size}}};
    chunks_.push_back(std::move(chunk));
  } catch (const Error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  taken_ += size;
  return true;
}

std::byte* HostPool::allocate(size_t bytes) {
  CHECK(bytes > 0);
  std::byte* at = nullptr;
  for (size_t i = 0; at == nullptr && i < chunks_.size(); ++i) at = take_from(chunks_[i], bytes);
  if (at == nullptr && add_chunk(bytes)) at = take_from(chunks_.back(), bytes);
  if (at != nullptr) used_ += bytes;
  return at;
}

void HostPool::free(std::byte* piece, size_t bytes) {
  const auto chunk = std::ranges::find_if(chunks_, [piece](const Chunk& some) {
    const auto* first = some.memory.as<std::byte>();
    return piece >= first && piece < first + some.memory.bytes();
  });
  CHECK(chunk != chunks_.end());
  auto at = chunk->free.emplace(static_cast<size_t>(piece - chunk->memory.as<std::byte>()), bytes).first;
  if (const auto next = std::next(at); next != chunk->free.end() && at->first + at->second == next->first) {
    at->second += next->second;
    chunk->free.erase(next);
  }
  if (at != chunk->free.begin()) {
    if (const auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      chunk->free.erase(at);
    }
  }
  used_ -= bytes;
  if (used_ == 0 && chunks_.size() > 1) give_back_chunks();
}

// One stays: pauses come in bursts.
void HostPool::give_back_chunks() {
  storage_.finish();  // copies out of them may be on their way
  while (chunks_.size() > 1) {
    CHECK(chunks_.back().empty());
    taken_ -= chunks_.back().memory.bytes();
    chunks_.pop_back();
  }
}

std::byte* HostSpan::place(size_t bytes) {
  pieces_.reserve(pieces_.size() + 1);
  std::byte* at = pool_->allocate(bytes);
  if (at != nullptr) pieces_.push_back({at, bytes});
  return at;
}

}  // namespace kvasir
