// A few threads that share one loop at a time.
//
// Workers spin briefly after a loop, since the next one is usually microseconds away, then park: on a busy machine a
// pool that only spins takes the core away from the thread it waits for. For the same reason the caller waits for
// items, not for workers: one that was descheduled between loops holds nobody up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace kvasir {

class ThreadPool {
 public:
  // `threads` counts the caller: a pool of 1 starts no thread. Requires threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(item, thread) once for every item in [0, items), in no particular order, the caller taking part;
  // returns when all are done. `thread` is in [0, threads()) and is held by one call at a time: a place for scratch.
  // Only one thread may call this, body may not call it again, and body may not throw.
  template <class Body>
  void parallel_for(std::int64_t items, const Body& body) {
    if (items <= 0) return;
    if (workers_.empty() || items == 1) {
      for (std::int64_t i = 0; i < items; ++i) body(i, 0);
      return;
    }
    run({&body, [](const void* b, std::int64_t i, int thread) { (*static_cast<const Body*>(b))(i, thread); }}, items);
  }

 private:
  struct Task {
    const void* body = nullptr;
    void (*call)(const void* body, std::int64_t item, int thread) = nullptr;
  };

  void run(Task task, std::int64_t items);
  void work(int thread);
  void drain(int thread);
  std::uint32_t wait_for_loop_after(std::uint32_t seen);

  // Written by the caller while no item is handed out; read only by a thread that holds an item of the loop.
  Task task_;

  // The loop's number above, its items not yet handed out below: taking an item and knowing that it belongs to the
  // loop one saw is a single compare-and-swap.
  alignas(64) std::atomic<std::uint64_t> tickets_{0};
  alignas(64) std::atomic<std::int64_t> done_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> parked_{0};
  std::mutex park_mutex_;
  std::condition_variable park_;
  std::vector<std::thread> workers_;
};

}  // namespace kvasir
