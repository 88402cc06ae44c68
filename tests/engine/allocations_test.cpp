// A step in the middle of an answer asks the allocator for nothing. A binary of its own: it counts every call of new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "support/fixtures.h"

namespace {

std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, std::max(rounded, alignment))) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined, any of them: the compiler would see a free() of what came from new, and not that new is malloc() here.
[[gnu::noinline]] void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size, alignof(std::max_align_t));  // or the end of the test: there is always memory
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace kvasir::testing {
namespace {

constexpr int kPrompt = 12;  // five of them fit one step

struct Case {
  const char* name;
  int threads;
  int requests;
  float temperature;
};

class AllocationsTest : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Decoding, AllocationsTest,
                         ::testing::Values(Case{"greedy", 1, 1, 0.0F}, Case{"two_threads", 2, 1, 0.0F},
                                           Case{"a_batch", 2, 5, 0.0F}, Case{"drawn", 1, 3, 0.8F}),
                         [](const auto& test) { return test.param.name; });

// Every so many tokens a block is full, and named, or a new one is taken: those steps may allocate.
TEST_P(AllocationsTest, AStepInsideABlockAllocatesNothing) {
  const Case& test = GetParam();
  const auto backend = make_backend({"cpu", test.threads, "auto"});
  const auto model = load_golden("gqa", *backend, 64);
  Engine engine(*backend, *model, {});
  std::int64_t heard = 0;
  for (int i = 0; i < test.requests; ++i) {
    Request request;
    request.prompt.assign(kPrompt, i + 1);
    request.max_tokens = 90;
    request.sampling.temperature = test.temperature;
    request.sampling.top_k = 20;
    request.sampling.top_p = 0.9F;
    engine.submit(std::move(request), [&heard](const Update& update) { heard += update.token >= 0; });
  }
  std::int64_t quiet = 0;
  for (int step = 0; step < 80; ++step) {
    const std::int64_t before = allocations;
    engine.step();
    const int place = (kPrompt + step - 1) % kDefaultBlockTokens;  // of the row that was computed
    // The first steps set up what later ones use.
    if (step < 8 || place == 0 || place == kDefaultBlockTokens - 1) continue;
    EXPECT_EQ(allocations - before, 0) << "step " << step;
    ++quiet;
  }
  EXPECT_EQ(heard, 80 * test.requests);
  EXPECT_GT(quiet, 50);
}

}  // namespace
}  // namespace kvasir::testing
