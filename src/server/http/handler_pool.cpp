#include "server/http/handler_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kvasir {

struct HandlerPool::Entry {
  std::string tenant;
  Job job;
  bool waiting = true;  // under mutex_
};

HandlerPool::HandlerPool(Limits limits) : limits_{std::max(limits.threads, 1), limits.waiting} {
  for (int i = 0; i < limits_.threads; ++i) threads_.emplace_back([this] { run(); });
}

HandlerPool::Ticket HandlerPool::submit(const std::string& tenant, Job job) {
  auto ticket = std::make_shared<Entry>(Entry{tenant, std::move(job)});
  {
    const std::lock_guard lock(mutex_);
    advance_clock(now());
    Tenant& whose = tenants_[tenant];
    if (whose.waiting.size() >= limits_.waiting) return nullptr;
    if (!whose.present()) whose.used = std::max(whose.used, clock_);
    whose.waiting.push_back(ticket);
  }
  changed_.notify_one();
  return ticket;
}

bool HandlerPool::withdraw(const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  if (!ticket->waiting) return false;
  ticket->waiting = false;
  std::erase(tenants_[ticket->tenant].waiting, ticket);
  return true;
}

void HandlerPool::join() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool HandlerPool::may_begin(const std::string& name, const Tenant& tenant) const {
  const int most = name.empty() ? limits_.threads : std::max(limits_.threads - 1, 1);
  return !tenant.waiting.empty() && tenant.busy < most;
}

HandlerPool::Tenant* HandlerPool::next() {
  const double at = now();
  Tenant* found = nullptr;
  for (auto& [name, tenant] : tenants_) {
    if (!may_begin(name, tenant)) continue;
    if (found == nullptr || used_by(tenant, at) < used_by(*found, at)) found = &tenant;
  }
  return found;
}

void HandlerPool::advance_clock(double at) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.present()) least = std::min(least, used_by(tenant, at));
  }
  if (least < std::numeric_limits<double>::infinity()) clock_ = std::max(clock_, least);
  std::erase_if(tenants_, [this](const auto& one) { return !one.second.present() && one.second.used <= clock_; });
}

void HandlerPool::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Tenant* tenant = nullptr;
    changed_.wait(lock, [&] { return (tenant = next()) != nullptr || ending_; });
    if (tenant == nullptr) break;
    const Ticket ticket = std::move(tenant->waiting.front());
    tenant->waiting.pop_front();
    ticket->waiting = false;
    const double began = now();
    ++tenant->busy;
    tenant->began_at += began;
    lock.unlock();
    ticket->job();
    ticket->job = nullptr;
    lock.lock();
    const double ended = now();
    advance_clock(ended);  // while it still counts as present
    tenant->used += ended - began;
    tenant->began_at -= began;
    --tenant->busy;
    changed_.notify_all();  // this tenant may have had as many threads as it gets
  }
}

}  // namespace kvasir
