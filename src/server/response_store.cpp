#include "server/response_store.h"

#include <algorithm>

namespace kvasir {
namespace {

auto with_id(const std::string& id) {
  return [&id](const std::shared_ptr<const KeptResponse>& kept) { return kept->id == id; };
}

}  // namespace

void ResponseStore::add(std::uint32_t tenant, KeptResponse response) {
  if (response.bytes() > limits_.bytes || limits_.responses == 0) return;
  auto kept = std::make_shared<const KeptResponse>(std::move(response));
  const std::lock_guard lock(mutex_);
  Shelf& shelf = shelves_[tenant];
  shelf.bytes += kept->bytes();
  shelf.responses.push_front(std::move(kept));
  while (shelf.bytes > limits_.bytes || shelf.responses.size() > limits_.responses) {
    shelf.bytes -= shelf.responses.back()->bytes();
    shelf.responses.pop_back();
  }
}

std::shared_ptr<const KeptResponse> ResponseStore::find(std::uint32_t tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto shelf = shelves_.find(tenant);
  if (shelf == shelves_.end()) return nullptr;
  const auto found = std::ranges::find_if(shelf->second.responses, with_id(id));
  return found == shelf->second.responses.end() ? nullptr : *found;
}

bool ResponseStore::remove(std::uint32_t tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto shelf = shelves_.find(tenant);
  if (shelf == shelves_.end()) return false;
  auto& responses = shelf->second.responses;
  const auto found = std::ranges::find_if(responses, with_id(id));
  if (found == responses.end()) return false;
  shelf->second.bytes -= (*found)->bytes();
  responses.erase(found);
  return true;
}

size_t ResponseStore::bytes(std::uint32_t tenant) const {
  const std::lock_guard lock(mutex_);
  const auto shelf = shelves_.find(tenant);
  return shelf == shelves_.end() ? 0 : shelf->second.bytes;
}

}  // namespace kvasir
