#include "engine/step/mask_worker.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits>
#include <utility>

namespace kvasir {

MaskWorker::~MaskWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<MaskWorker::Job> MaskWorker::submit(std::uint32_t tenant,
                                                    std::shared_ptr<TokenConstraint> constraint) {
  auto job = std::make_shared<Job>();
  job->tenant = tenant;
  job->constraint = std::move(constraint);
  {
    const std::lock_guard lock(mutex_);
    waiting_[tenant].push_back(job);
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  wake_.notify_one();
  return job;
}

void MaskWorker::wait(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  finished_.wait_for(lock, at_most, [this] { return some_done_; });
  some_done_ = false;
}

// Of the tenant that follows the last one served, in the order of their numbers and around.
std::shared_ptr<MaskWorker::Job> MaskWorker::next() {
  auto turn = waiting_.upper_bound(last_tenant_);
  if (turn == waiting_.end()) turn = waiting_.begin();
  last_tenant_ = turn->first;
  std::shared_ptr<Job> job = std::move(turn->second.front());
  turn->second.pop_front();
  if (turn->second.empty()) waiting_.erase(turn);
  return job;
}

void MaskWorker::run(Job& job) {
  const auto start = std::chrono::steady_clock::now();
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  std::size_t left = kAll;
  try {
    job.constraint->prepare(left);
  } catch (...) {
    job.error = std::current_exception();
  }
  job.work = kAll - left;
  job.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void MaskWorker::loop() {
  constexpr int kNice = 10;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)),
              kNice);  // of this thread; where it may not, as it is
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<Job> job = next();
    if (job.use_count() == 1) continue;  // its request is gone
    lock.unlock();
    run(*job);
    job->done = true;
    lock.lock();
    some_done_ = true;
    finished_.notify_one();
  }
}

}  // namespace kvasir
