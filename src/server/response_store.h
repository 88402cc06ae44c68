// The last finished responses of each tenant, so that another request can go on from one. In memory only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kvasir {

// Texts of JSON: parsed JSON takes several times the room, which the limit below could not count.
struct KeptResponse {
  std::string id;
  std::string response;  // the object, as it was sent
  std::string items;     // the array of items that led to it; its own output is not among them
  std::string output{};  // the array of items that it added, once more: the response may be long besides
  std::vector<std::string> output_ids{};  // of these items

  size_t bytes() const;
};

// All methods may be called from any thread. No tenant finds or drops another's.
class ResponseStore {
 public:
  struct Limits {
    size_t responses = 1024;
    size_t bytes = size_t{64} << 20;
  };

  explicit ResponseStore(Limits of_each_tenant) : limits_(of_each_tenant) {}

  // The oldest go when there is no room. One that is larger than all the room is not kept.
  void add(std::uint32_t tenant, KeptResponse response);
  std::shared_ptr<const KeptResponse> find(std::uint32_t tenant, const std::string& id) const;  // null: not here
  // The newest that put out the item of this id; null: not here.
  std::shared_ptr<const KeptResponse> with_item(std::uint32_t tenant, const std::string& item) const;
  bool remove(std::uint32_t tenant, const std::string& id);  // false: not here
  size_t bytes(std::uint32_t tenant) const;

 private:
  struct TenantResponses {
    std::deque<std::shared_ptr<const KeptResponse>> responses;  // newest first
    size_t bytes = 0;
  };

  Limits limits_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, TenantResponses> by_tenant_;  // under mutex_
};

}  // namespace kvasir
