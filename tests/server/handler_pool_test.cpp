// Handlers in turns: by the time a tenant has used, without credit for absence, and never all for one.
#include "server/http/handler_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <string>

namespace kvasir::testing {
namespace {

using std::chrono::milliseconds;

// A job that runs until it is let go.
class Gate {
 public:
  HandlerPool::Job job() {
    return [this] {
      entered_.set_value();
      open_.get_future().wait();
    };
  }
  bool entered(milliseconds patience = std::chrono::seconds(10)) {
    return entered_future_.wait_for(patience) == std::future_status::ready;
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> entered_;
  std::promise<void> open_;
  std::future<void> entered_future_ = entered_.get_future();
};

void busy(milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(HandlerPoolTest, WhoUsedLeastGoesFirst) {
  Gate gate;
  HandlerPool pool({.threads = 1});
  pool.submit("op", gate.job());
  ASSERT_TRUE(gate.entered());
  std::mutex mutex;
  std::string order;
  const auto note = [&](char who, milliseconds time) {
    return [&, who, time] {
      busy(time);
      const std::lock_guard lock(mutex);
      order += who;
    };
  };
  for (int i = 0; i < 4; ++i) pool.submit("alice", note('a', milliseconds(40)));
  for (int i = 0; i < 4; ++i) pool.submit("bob", note('b', milliseconds(1)));
  gate.open();
  pool.join();
  ASSERT_EQ(order.size(), 8U);
  // Whoever began, bob's four are shorter than two of alice's.
  EXPECT_LE(order.find_last_of('b'), 4U) << order;
}

TEST(HandlerPoolTest, ATenantNeverHasTheLastThread) {
  Gate first;
  Gate second;
  Gate third;
  Gate other;
  HandlerPool pool({.threads = 3});
  pool.submit("alice", first.job());
  pool.submit("alice", second.job());
  pool.submit("alice", third.job());
  ASSERT_TRUE(first.entered());
  ASSERT_TRUE(second.entered());
  pool.submit("bob", other.job());
  EXPECT_TRUE(other.entered());
  EXPECT_FALSE(third.entered(milliseconds(50)));
  first.open();
  EXPECT_TRUE(third.entered());
  second.open();
  third.open();
  other.open();
}

TEST(HandlerPoolTest, EverybodyMayHaveAllThreads) {
  Gate first;
  Gate second;
  HandlerPool pool({.threads = 2});
  pool.submit("", first.job());
  pool.submit("", second.job());
  EXPECT_TRUE(first.entered());
  EXPECT_TRUE(second.entered());
  first.open();
  second.open();
}

TEST(HandlerPoolTest, AbsenceGivesNoCredit) {
  Gate gate;
  std::promise<void> done;
  HandlerPool pool({.threads = 1});
  pool.submit("alice", [&] {
    busy(milliseconds(300));
    done.set_value();
  });
  done.get_future().wait();
  // A moment when nobody is here; then bob, who was never there, keeps coming, and alice comes once.
  pool.submit("bob", gate.job());
  ASSERT_TRUE(gate.entered());
  std::atomic<int> bobs = 0;
  int before_alice = -1;
  for (int i = 0; i < 200; ++i) {
    pool.submit("bob", [&] {
      busy(milliseconds(5));
      ++bobs;
    });
  }
  pool.submit("alice", [&] { before_alice = bobs; });
  gate.open();
  pool.join();
  // With credit for alice's 300 ms it would be some sixty of them.
  EXPECT_LE(before_alice, 20);
}

TEST(HandlerPoolTest, WaitingIsBoundedForEach) {
  Gate gate;
  HandlerPool pool({.threads = 1, .waiting = 2});
  pool.submit("alice", gate.job());
  ASSERT_TRUE(gate.entered());
  std::atomic<int> ran = 0;
  EXPECT_TRUE(pool.submit("alice", [&] { ++ran; }));
  const HandlerPool::Ticket withdrawn = pool.submit("alice", [&] { ran += 100; });
  ASSERT_TRUE(withdrawn);
  EXPECT_FALSE(pool.submit("alice", [&] { ran += 1000; }));
  const HandlerPool::Ticket bobs = pool.submit("bob", [&] { ++ran; });
  EXPECT_TRUE(bobs);
  EXPECT_TRUE(pool.withdraw(withdrawn));
  EXPECT_FALSE(pool.withdraw(withdrawn));
  EXPECT_TRUE(pool.submit("alice", [&] { ++ran; }));
  gate.open();
  pool.join();
  EXPECT_EQ(ran, 3);
  EXPECT_FALSE(pool.withdraw(bobs));
}

}  // namespace
}  // namespace kvasir::testing
