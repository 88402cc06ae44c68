// Memory to fail with. When the system refuses memory, std::bad_alloc unwinds to whoever can tell the client so; but
// destructors on the way may want memory themselves (nlohmann's JSON does), and an exception out of one of them ends
// the process. So some is set aside, and given back to the system at that moment.
#pragma once

#include <cstddef>

namespace kvasir {

// Of the whole process, like the new handler that it is: there is one at a time. Addresses only, no memory is
// touched.
class MemoryReserve {
 public:
  explicit MemoryReserve(size_t bytes);
  ~MemoryReserve();
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
};

// Sets it aside again once memory is there; from any thread. Does nothing where there is no reserve, or it is whole.
void refill_memory_reserve() noexcept;

}  // namespace kvasir
