#include "server/response_store.h"

#include <algorithm>

namespace kvasir {
namespace {

auto with_id(const std::string& id) {
  return [&id](const std::shared_ptr<const KeptResponse>& kept) { return kept->id == id; };
}

}  // namespace

size_t KeptResponse::bytes() const {
  size_t sum = id.size() + response.size() + items.size() + output.size();
  for (const std::string& one : output_ids) sum += sizeof one + one.size();
  return sum;
}

void ResponseStore::add(std::uint32_t tenant, KeptResponse response) {
  if (response.bytes() > limits_.bytes || limits_.responses == 0) return;
  auto kept = std::make_shared<const KeptResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  TenantResponses& own = by_tenant_[tenant];
  own.bytes += kept->bytes();
  own.responses.push_front(std::move(kept));
  while (own.bytes > limits_.bytes || own.responses.size() > limits_.responses) {
    own.bytes -= own.responses.back()->bytes();
    own.responses.pop_back();
  }
}

std::shared_ptr<const KeptResponse> ResponseStore::find(std::uint32_t tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto own = by_tenant_.find(tenant);
  if (own == by_tenant_.end()) return nullptr;
  const auto found = std::ranges::find_if(own->second.responses, with_id(id));
  return found == own->second.responses.end() ? nullptr : *found;
}

std::shared_ptr<const KeptResponse> ResponseStore::with_item(std::uint32_t tenant, const std::string& item) const {
  const std::lock_guard lock(mutex_);
  const auto own = by_tenant_.find(tenant);
  if (own == by_tenant_.end()) return nullptr;
  const auto has = [&](const std::shared_ptr<const KeptResponse>& kept) {
    return std::ranges::find(kept->output_ids, item) != kept->output_ids.end();
  };
  const auto found = std::ranges::find_if(own->second.responses, has);
  return found == own->second.responses.end() ? nullptr : *found;
}

bool ResponseStore::remove(std::uint32_t tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto own = by_tenant_.find(tenant);
  if (own == by_tenant_.end()) return false;
  auto& responses = own->second.responses;
  const auto found = std::ranges::find_if(responses, with_id(id));
  if (found == responses.end()) return false;
  own->second.bytes -= (*found)->bytes();
  responses.erase(found);
  return true;
}

size_t ResponseStore::bytes(std::uint32_t tenant) const {
  const std::lock_guard lock(mutex_);
  const auto own = by_tenant_.find(tenant);
  return own == by_tenant_.end() ? 0 : own->second.bytes;
}

}  // namespace kvasir
