#include "base/memory_reserve.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/check.h"

namespace kvasir {
namespace {

// A new handler has no argument: what it needs can be nowhere else.
struct State {
  std::atomic<size_t> bytes = 0;  // 0: there is none
  std::atomic<void*> memory = nullptr;
};
State& state() {
  static State one;
  return one;
}

[[noreturn]] void let_go_and_fail() {
  std::free(state().memory.exchange(nullptr));
  throw std::bad_alloc();
}

}  // namespace

MemoryReserve::MemoryReserve(size_t bytes) {
  CHECK(state().bytes.exchange(bytes) == 0 && bytes > 0);
  refill_memory_reserve();
  std::set_new_handler(let_go_and_fail);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(nullptr);
  state().bytes = 0;
  std::free(state().memory.exchange(nullptr));
}

void refill_memory_reserve() noexcept {
  const size_t bytes = state().bytes;
  if (bytes == 0 || state().memory != nullptr) return;
  void* expected = nullptr;
  void* memory = std::malloc(bytes);
  if (memory != nullptr && !state().memory.compare_exchange_strong(expected, memory)) std::free(memory);
}

}  // namespace kvasir
