#include "base/thread_pool.h"

#include "base/check.h"
#include "base/pause_cpu.h"

namespace kvasir {
namespace {

// About 50 µs on a current core: longer than the gap between two ops of a step, shorter than a scheduler tick.
constexpr int kSpins = 2000;

constexpr std::uint32_t loop_of(std::uint64_t tickets) { return static_cast<std::uint32_t>(tickets >> 32); }
constexpr std::uint32_t left_in(std::uint64_t tickets) { return static_cast<std::uint32_t>(tickets); }

}  // namespace

ThreadPool::ThreadPool(int threads) {
  CHECK(threads >= 1);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(park_mutex_);
    stopping_ = true;
  }
  park_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(Task task, std::int64_t items) {
  CHECK(items < (std::int64_t{1} << 32));
  task_ = task;
  done_.store(0, std::memory_order_relaxed);
  const std::uint64_t next_loop = loop_of(tickets_.load(std::memory_order_relaxed)) + std::uint64_t{1};
  tickets_.store(next_loop << 32 | static_cast<std::uint64_t>(items));  // publishes the task
  if (parked_.load() > 0) {
    // Taking the mutex closes the gap between a worker's last look at tickets_ and its sleep.
    { const std::lock_guard lock(park_mutex_); }
    park_.notify_all();
  }
  drain(0);
  for (int spin = 0; done_.load(std::memory_order_acquire) != items; ++spin) {
    if (spin < kSpins) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // the last item's holder may be waiting for our core
    }
  }
}

void ThreadPool::work(int thread) {
  std::uint32_t seen = 0;
  while (true) {
    seen = wait_for_loop_after(seen);
    if (stopping_) return;
    drain(thread);
  }
}

void ThreadPool::drain(int thread) {
  std::uint64_t tickets = tickets_.load(std::memory_order_acquire);
  while (left_in(tickets) > 0) {
    if (!tickets_.compare_exchange_weak(tickets, tickets - 1, std::memory_order_acq_rel)) continue;
    // Holding an item keeps its loop, and so task_, alive until done_ is raised below.
    task_.call(task_.body, left_in(tickets) - 1, thread);
    done_.fetch_add(1, std::memory_order_release);
    tickets = tickets_.load(std::memory_order_acquire);
  }
}

std::uint32_t ThreadPool::wait_for_loop_after(std::uint32_t seen) {
  for (int spin = 0; spin < kSpins; ++spin) {
    const std::uint32_t now = loop_of(tickets_.load());
    if (now != seen || stopping_) return now;
    pause_cpu();
  }
  std::unique_lock lock(park_mutex_);
  parked_.fetch_add(1);
  park_.wait(lock, [&] { return loop_of(tickets_.load()) != seen || stopping_; });
  parked_.fetch_sub(1);
  return loop_of(tickets_.load());
}

}  // namespace kvasir
