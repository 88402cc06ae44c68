// Masks of forms (JSON schemas) that take longer than a step has time for, found beside the engine's thread: tenants
// in turn, at a low priority, so that nobody else's tokens wait for them.
//
// A job's constraint is the worker's alone until it is done. The thread starts with the first job.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "sample/constraint.h"

namespace kvasir {

class MaskWorker {
 public:
  struct Job {
    std::uint32_t tenant = 0;
    std::shared_ptr<TokenConstraint> constraint;
    // Written before `done` is:
    std::size_t work = 0;  // that it took
    double seconds = 0;
    std::exception_ptr error;
    std::atomic<bool> done = false;
  };

  MaskWorker() = default;
  ~MaskWorker();  // what nobody has begun is not done any more
  MaskWorker(const MaskWorker&) = delete;
  MaskWorker& operator=(const MaskWorker&) = delete;

  std::shared_ptr<Job> submit(std::uint32_t tenant, std::shared_ptr<TokenConstraint> constraint);

  // Returns when a job is done that was not when it was last called, or after so long.
  void wait(std::chrono::milliseconds at_most);

 private:
  void loop();
  std::shared_ptr<Job> next();  // REQUIRES: mutex_ is held, and there is one
  static void run(Job& job);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  std::map<std::uint32_t, std::deque<std::shared_ptr<Job>>> waiting_;  // under mutex_: by tenant, none empty
  std::uint32_t last_tenant_ = 0;                                      // under mutex_: whose turn it was
  bool some_done_ = false;                                             // under mutex_: since wait()
  bool stopping_ = false;                                              // under mutex_
  std::thread thread_;
};

}  // namespace kvasir
