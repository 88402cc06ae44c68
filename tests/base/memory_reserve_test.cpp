#include "base/memory_reserve.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>
#include <vector>

namespace kvasir {
namespace {

// A child with little address space: whoever fails there must find memory on the way out.
[[noreturn, maybe_unused]] void fail_in_little_memory() {
  struct Wants {  // memory, in its destructor, as JSON's
    ~Wants() { std::vector<char> some(std::size_t{8} << 20); }
  };
  const rlimit little{std::size_t{96} << 20, std::size_t{96} << 20};
  setrlimit(RLIMIT_AS, &little);
  const MemoryReserve reserve(std::size_t{16} << 20);
  std::vector<std::vector<char>> taken;
  for (int round = 0; round < 2; ++round) {
    try {
      const Wants wants;
      while (true) taken.emplace_back(std::size_t{1} << 20);
    } catch (const std::bad_alloc&) {
      taken.clear();
    }
    refill_memory_reserve();
  }
  std::_Exit(7);
}

TEST(MemoryReserveTest, DestructorsFindMemoryWhenThereIsNone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space";
#else
  EXPECT_EXIT(fail_in_little_memory(), ::testing::ExitedWithCode(7), "");
#endif
}

}  // namespace
}  // namespace kvasir
