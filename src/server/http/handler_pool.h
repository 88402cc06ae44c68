// The threads that handle requests, in turns by tenant: who has used least of their time goes first.
//
// Time is counted by a clock that never goes back: a tenant that was away begins level with the least served of those
// who are here, or were last, so that nobody saves up credit. With more than one thread a tenant never has the last
// one, so that another's request begins at once, however long the first one's take.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace kvasir {

// All methods may be called from any thread.
class HandlerPool {
 public:
  struct Limits {
    int threads = 2;
    size_t waiting = 1024;  // jobs of each tenant
  };
  using Job = std::function<void()>;  // must not throw
  struct Entry;
  using Ticket = std::shared_ptr<Entry>;

  explicit HandlerPool(Limits limits);
  ~HandlerPool() { join(); }
  HandlerPool(const HandlerPool&) = delete;
  HandlerPool& operator=(const HandlerPool&) = delete;

  // The empty name stands for everybody, and may have all threads. Null: too many of this tenant's wait already.
  Ticket submit(const std::string& tenant, Job job);

  // Whether the job was still waiting, and will now never run.
  bool withdraw(const Ticket& ticket);

  // Waits for what was submitted; nothing may be submitted after this.
  void join();

 private:
  using Clock = std::chrono::steady_clock;
  struct Tenant {
    std::deque<Ticket> waiting{};
    int busy = 0;         // threads
    double used = 0;      // seconds of them, without what runs now
    double began_at = 0;  // the sum of when those that run began

    bool present() const { return busy > 0 || !waiting.empty(); }
  };

  double now() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  static double used_by(const Tenant& tenant, double at) { return tenant.used + tenant.busy * at - tenant.began_at; }
  bool may_begin(const std::string& name, const Tenant& tenant) const;
  Tenant* next();
  void advance_clock(double at);
  void run();

  const Limits limits_;
  const Clock::time_point started_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Tenant> tenants_;  // under mutex_
  double clock_ = 0;                       // under mutex_: what the least served has used; never less than before
  bool ending_ = false;                    // under mutex_
  std::vector<std::thread> threads_;
};

}  // namespace kvasir
