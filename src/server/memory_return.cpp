#include "server/memory_return.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <chrono>

namespace kvasir {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::int64_t kPauseMs = 1000;
constexpr std::int64_t kIdlePauseMs = 10'000;

void give_back() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

void MemoryReturn::use_few_pools() {
#if defined(__GLIBC__)
  constexpr int kPools = 2;
  mallopt(M_ARENA_MAX, kPools);
#endif
}

void MemoryReturn::after(std::size_t request_bytes) {
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::steady_clock;
  const std::int64_t now = duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
  const bool large = request_bytes >= kLarge;
  if (!large) {
    std::atomic<std::int64_t>& due = owed_ ? next_ms_ : idle_ms_;
    std::int64_t next = due;
    if (now < next || !due.compare_exchange_strong(next, now + kPauseMs)) return;
  }
  next_ms_ = now + kPauseMs;
  idle_ms_ = now + kIdlePauseMs;
  owed_ = large;
  ++times_;
  give_back();
}

}  // namespace kvasir
