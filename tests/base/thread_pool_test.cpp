#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <vector>

namespace kvasir {
namespace {

TEST(ThreadPool, RunsEveryItemExactlyOnce) {
  for (const int threads : {1, 2, 3, 4, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::int64_t items : {0, 1, 2, 3, 7, 8, 64, 1000, 4097}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(items));
      pool.parallel_for(items, [&](std::int64_t i, int) { ++runs[static_cast<size_t>(i)]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, NoItemsOrFewerAreNoLoop) {
  ThreadPool pool(3);
  pool.parallel_for(0, [](std::int64_t, int) { FAIL(); });
  pool.parallel_for(-5, [](std::int64_t, int) { FAIL(); });
}

// Scratch that belongs to a thread number needs no lock: plain integers, which a thread sanitizer watches.
TEST(ThreadPool, AThreadNumberIsHeldByOneCallAtATime) {
  ThreadPool pool(4);
  std::vector<std::int64_t> sums(4);
  std::vector<std::atomic<bool>> busy(4);
  for (int loop = 0; loop < 200; ++loop) {
    pool.parallel_for(97, [&](std::int64_t i, int thread) {
      ASSERT_TRUE(thread >= 0 && thread < 4);
      const auto at = static_cast<size_t>(thread);
      EXPECT_FALSE(busy[at].exchange(true));
      sums[at] += i;
      busy[at] = false;
    });
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), std::int64_t{0}), 200 * (96 * 97 / 2));
}

// What a loop wrote, plainly, the caller and the next loop read: each loop is a barrier.
TEST(ThreadPool, ALoopSeesAllThatTheLoopBeforeItWrote) {
  ThreadPool pool(4);
  std::vector<std::int64_t> values(256, 0);
  std::vector<std::int64_t> next(256, 0);
  for (std::int64_t loop = 1; loop <= 5000; ++loop) {
    pool.parallel_for(
        256, [&](std::int64_t i, int) { next[static_cast<size_t>(i)] = values[static_cast<size_t>(255 - i)] + 1; });
    values.swap(next);
    ASSERT_EQ(values, std::vector<std::int64_t>(256, loop));
  }
}

TEST(ThreadPool, ManyShortLoopsLoseNothing) {
  ThreadPool pool(3);
  std::atomic<std::int64_t> runs{0};
  std::int64_t expected = 0;
  for (int loop = 0; loop < 50'000; ++loop) {
    const int items = 1 + loop % 5;
    expected += items;
    pool.parallel_for(items, [&](std::int64_t, int) { runs.fetch_add(1, std::memory_order_relaxed); });
  }
  EXPECT_EQ(runs, expected);
}

// Items that wait for each other: with sleepers it would never end. Nothing here depends on how long it
// takes.
TEST(ThreadPool, WorkersThatHaveParkedWakeUp) {
  ThreadPool pool(3);
  for (int loop = 0; loop < 5; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough to park
    std::atomic<int> arrived{0};
    pool.parallel_for(3, [&](std::int64_t, int) {
      ++arrived;
      while (arrived < 3) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 3);
  }
}

TEST(ThreadPool, UnevenItemsAreShared) {
  ThreadPool pool(4);
  std::atomic<std::int64_t> sum{0};
  pool.parallel_for(100, [&](std::int64_t i, int) {
    std::int64_t local = 0;
    for (std::int64_t k = 0; k < (i % 10 == 0 ? 100'000 : 10); ++k) local += k & 1;
    sum += local;
  });
  EXPECT_EQ(sum, 10 * 50'000 + 90 * 5);
}

// One pool's items may run another pool's loops: the state of a loop is all inside its pool.
TEST(ThreadPool, PoolsNestInEachOther) {
  ThreadPool outer(2);
  std::vector<std::int64_t> sums(2);
  outer.parallel_for(2, [&](std::int64_t i, int) {
    ThreadPool inner(2);
    std::vector<std::int64_t> parts(100);
    inner.parallel_for(100, [&](std::int64_t k, int) { parts[static_cast<size_t>(k)] = k * (i + 1); });
    sums[static_cast<size_t>(i)] = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  });
  EXPECT_EQ(sums, (std::vector<std::int64_t>{4950, 9900}));
}

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 200; ++i) const ThreadPool pool(1 + i % 4);
}

TEST(ThreadPoolDeathTest, NeedsAtLeastTheCaller) { EXPECT_DEATH(ThreadPool(0), "threads >= 1"); }

}  // namespace
}  // namespace kvasir
