// KvCache by tenant: shares of the pool, and what each tenant's requests did.
#include <algorithm>
#include <cmath>

#include "kv/cache.h"

namespace kvasir {

namespace {

BlockPool::Limits limits_of(const TenantShare& share, std::int64_t pool_blocks) {
  const auto blocks = static_cast<double>(pool_blocks);
  BlockPool::Limits limits;
  limits.guaranteed = static_cast<std::int64_t>(std::floor(std::clamp(share.guaranteed, 0.0, 1.0) * blocks));
  if (share.most < 1) limits.most = std::max<std::int64_t>(1, static_cast<std::int64_t>(share.most * blocks));
  return limits;
}

}  // namespace

OwnerId KvCache::owner_of(std::uint32_t tenant) { return tenant + 1; }

void KvCache::set_share(std::uint32_t tenant, TenantShare share) {
  for (Group& group : groups_) {
    group.pool.set_limits(owner_of(tenant), limits_of(share, group.pool.size()));
  }
}

TenantStats KvCache::tenant_stats(std::uint32_t tenant) const {
  const auto found = tenants_.find(tenant);
  TenantStats out = found == tenants_.end() ? TenantStats{} : found->second;
  for (const Group& group : groups_) {
    const std::int64_t owned = group.pool.owned(owner_of(tenant));
    out.blocks += owned;
    out.bytes += owned * group.config.block_bytes;
  }
  return out;
}

bool KvCache::over_guarantee(std::uint32_t tenant) const {
  return std::ranges::any_of(groups_, [&](const Group& g) { return g.pool.over_guarantee(owner_of(tenant)); });
}

bool KvCache::fits_alone(Position length, const TenantShare& share) const {
  return std::ranges::all_of(groups_, [&](const Group& group) {
    const Retention& kept = group.config.retention;
    const auto holding = [this](Position tokens) {
      return (tokens + config_.block_tokens - 1) / config_.block_tokens;
    };
    std::int64_t blocks = holding(length);
    if (!kept.full()) {
      // A window may begin inside a block and end inside another, and one more is being written.
      blocks = std::min(blocks, holding(kept.window) + 2 + holding(kept.sinks));
    }
    return blocks <= std::min(group.pool.size(), limits_of(share, group.pool.size()).most);
  });
}

}  // namespace kvasir
