// Those who wait, by tenant. Whose turn it is follows from the tokens computed for each tenant, divided by its
// weight: the least served goes first (virtual token counters). A virtual clock, which only goes forward, is where
// the least served of those present have come to: who was away starts there, however long and whoever else was away
// too. Within a tenant the smaller priority goes first, then who came first. Nothing that one tenant caches or asks
// for changes another's order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "engine/sequence.h"

namespace kvasir {

class TenantQueues {
 public:
  using Queue = std::deque<std::unique_ptr<Sequence>>;

  // A request of this tenant has come, or has ended, wherever it was.
  void arrive(std::uint32_t tenant);
  void leave(std::uint32_t tenant);

  // It waits: before all of its tenant that came after it. The caller keeps it where there is no memory for that.
  void put(std::unique_ptr<Sequence>&& sequence);

  void set_weight(std::uint32_t tenant, double weight) { tenants_[tenant].weight = weight; }
  void serve(std::uint32_t tenant, double tokens);

  std::vector<std::uint32_t> order() const;  // tenants for whom someone waits, whose turn it is first
  Queue& queue(std::uint32_t tenant) { return tenants_[tenant].waiting; }
  double served(std::uint32_t tenant) const;

  std::int64_t size() const;
  std::int64_t tenants_present() const;  // who have a request, waiting or not
  bool empty() const { return size() == 0; }

  template <class Visit>
  void each(Visit visit) {
    for (auto& [id, tenant] : tenants_) visit(tenant.waiting);
  }
  template <class Visit>
  void each(Visit visit) const {
    for (const auto& [id, tenant] : tenants_) visit(tenant.waiting);
  }

 private:
  struct OfTenant {
    Queue waiting;
    std::int64_t present = 0;  // requests that wait or run
    double weight = 1;
    double served = 0;  // tokens / weight
  };

  void advance_clock();

  std::map<std::uint32_t, OfTenant> tenants_;
  double clock_ = 0;  // of who is present nobody was served less
};

}  // namespace kvasir
