#include "server/memory_return.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <chrono>

namespace kvasir {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
constexpr std::int64_t kPauseMs = 1000;

void give_back() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace

void MemoryReturn::after(std::size_t request_bytes) {
  if (request_bytes >= kLarge) owed_ = 2;
  if (owed_ == 0) return;
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::steady_clock;
  const std::int64_t now = duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
  std::int64_t next = next_ms_;
  if (now < next || !next_ms_.compare_exchange_strong(next, now + kPauseMs)) return;
  --owed_;
  ++times_;
  give_back();
}

}  // namespace kvasir
