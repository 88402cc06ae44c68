#include "engine/schedule/tenant_queues.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace kvasir {

// While the same tenants are present the least served of them only goes forward, so it is enough to look before
// somebody comes or leaves.
void TenantQueues::advance_clock() {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [unused, tenant] : tenants_) {
    if (tenant.present > 0) least = std::min(least, tenant.served);
  }
  if (least < std::numeric_limits<double>::infinity()) clock_ = std::max(clock_, least);
}

// Absence earns no credit.
void TenantQueues::arrive(std::uint32_t id) {
  OfTenant& tenant = tenants_[id];
  if (tenant.present == 0) {
    advance_clock();
    tenant.served = std::max(tenant.served, clock_);
  }
  ++tenant.present;
}

void TenantQueues::put(std::unique_ptr<Sequence>&& sequence) {
  Queue& queue = tenants_[sequence->request.tenant.id].waiting;
  const auto rank = [](const std::unique_ptr<Sequence>& s) { return std::pair(s->request.priority, s->arrival); };
  const auto place = std::ranges::upper_bound(queue, rank(sequence), {}, rank);
  *queue.insert(place, nullptr) = std::move(sequence);
}

void TenantQueues::leave(std::uint32_t tenant) {
  OfTenant& of = tenants_[tenant];
  CHECK(of.present > 0);
  if (of.present == 1) advance_clock();
  --of.present;
}

void TenantQueues::serve(std::uint32_t tenant, double tokens) {
  OfTenant& of = tenants_[tenant];
  of.served += tokens / of.weight;
}

double TenantQueues::served(std::uint32_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.served;
}

std::vector<std::uint32_t> TenantQueues::order() const {
  std::vector<std::tuple<double, std::uint64_t, std::uint32_t>> ranked;
  for (const auto& [id, tenant] : tenants_) {
    if (!tenant.waiting.empty()) ranked.emplace_back(tenant.served, tenant.waiting.front()->arrival, id);
  }
  std::ranges::sort(ranked);
  std::vector<std::uint32_t> out;
  out.reserve(ranked.size());
  for (const auto& entry : ranked) out.push_back(std::get<2>(entry));
  return out;
}

std::int64_t TenantQueues::tenants_present() const {
  return std::ranges::count_if(tenants_, [](const auto& tenant) { return tenant.second.present > 0; });
}

std::int64_t TenantQueues::size() const {
  std::int64_t count = 0;
  for (const auto& [id, tenant] : tenants_) count += static_cast<std::int64_t>(tenant.waiting.size());
  return count;
}

}  // namespace kvasir
