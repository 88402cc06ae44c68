// Freed memory goes back to the system after large requests, and now and then: the allocator would keep it for the
// next one, and with it the sum of what each thread's largest request ever took.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvasir {

class MemoryReturn {
 public:
  // A request of so many bytes was handled. After a large one memory is given back at once, which takes less time
  // than the request did, and a second time when its answer is probably gone: with a later request, at most once a
  // second. After others, whose answers may be large, at most every ten seconds: it takes a millisecond. Any thread.
  void after(std::size_t request_bytes);

  // Before threads begin: the allocator has a pool for all of them and one more, not one for each, which would grow
  // to what its thread's largest request ever took.
  static void use_few_pools();

  std::int64_t times() const { return times_; }  // that memory was given back

 private:
  std::atomic<bool> owed_{false};
  std::atomic<std::int64_t> next_ms_{0};  // of a steady clock: not before, once it is owed
  std::atomic<std::int64_t> idle_ms_{0};  // nor before this, where nothing is
  std::atomic<std::int64_t> times_{0};
};

}  // namespace kvasir
