// What each tenant may have of the pool: written by the engine's thread, asked by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "kv/cache.h"
#include "kv/tenant.h"

namespace kvasir {

class TenantShares {
 public:
  explicit TenantShares(const KvCache& cache) : cache_(cache) {}

  void set(std::uint32_t tenant, const TenantShare& share) {
    const std::lock_guard lock(mutex_);
    shares_[tenant] = share;
  }
  TenantShare of(std::uint32_t tenant) const {
    const std::lock_guard lock(mutex_);
    const auto found = shares_.find(tenant);
    return found == shares_.end() ? TenantShare{} : found->second;
  }

  // Bytes of pages that public texts keep.
  void set_public_bytes(std::int64_t bytes) { public_bytes_ = bytes; }

  // Memory that a tenant can never have, however long it waits: what others are guaranteed, and public texts.
  std::int64_t kept_from(std::uint32_t tenant) const {
    std::int64_t bytes = public_bytes_;
    const std::lock_guard lock(mutex_);
    for (const auto& [id, share] : shares_) bytes += id == tenant ? 0 : cache_.guaranteed_bytes(share);
    return bytes;
  }

 private:
  const KvCache& cache_;  // of what never changes
  mutable std::mutex mutex_;
  std::map<std::uint32_t, TenantShare> shares_;  // under mutex_
  std::atomic<std::int64_t> public_bytes_ = 0;
};

}  // namespace kvasir
