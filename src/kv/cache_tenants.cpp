// KvCache by tenant: shares of the pool, and what each tenant's requests did.
#include <algorithm>
#include <cmath>

#include "kv/cache.h"

namespace kvasir {

OwnerId KvCache::owner_of(std::uint32_t tenant) { return tenant + 1; }

Owners::Limits KvCache::limits_of(const TenantShare& share) const {
  const auto bytes = static_cast<double>(memory_bytes());
  Owners::Limits limits;
  limits.guaranteed = static_cast<std::int64_t>(std::floor(std::clamp(share.guaranteed, 0.0, 1.0) * bytes));
  if (share.most < 1) {
    std::int64_t least = 0;  // one block of each group
    for (const CacheGroupConfig& group : config_.policy.groups) least += group.block_bytes;
    limits.most = std::max(least, static_cast<std::int64_t>(share.most * bytes));
  }
  return limits;
}

void KvCache::set_share(std::uint32_t tenant, TenantShare share) {
  owners_->set_limits(owner_of(tenant), limits_of(share));
}

TenantStats KvCache::tenant_stats(std::uint32_t tenant) const {
  const auto found = tenants_.find(tenant);
  TenantStats out = found == tenants_.end() ? TenantStats{} : found->second;
  for (const Group& group : groups_) out.blocks += group.pool.owned(owner_of(tenant));
  out.bytes = owners_->of(owner_of(tenant)).has;
  return out;
}

bool KvCache::over_guarantee(std::uint32_t tenant) const { return owners_->over_guarantee(owner_of(tenant)); }

bool KvCache::within_guarantee(PolicyId policy, std::uint32_t tenant, std::int64_t blocks, Position source) const {
  const Owners::Book book = owners_->of(owner_of(tenant));
  std::int64_t bytes = book.held;
  for (const size_t group : policies_[policy].groups) {
    const CacheGroupConfig& config = groups_[group].config;
    const std::int64_t other =
        config.state() ? static_cast<std::int64_t>(blocks > 0) : most_blocks(config, {0, source});
    bytes += (config.rows() ? blocks : other) * config.block_bytes;
  }
  return bytes <= book.limits.guaranteed;
}

std::int64_t KvCache::blocks_alone() const {
  std::int64_t rows = 0;
  std::int64_t states = 0;  // one is enough
  for (const CacheGroupConfig& group : config_.policy.groups) (group.state() ? states : rows) += group.block_bytes;
  if (rows == 0) return 0;  // of a model that caches nothing
  return std::max<std::int64_t>(memory_bytes() - states, 0) / rows;
}

bool KvCache::fits_alone(const TextSize& size, const TenantShare& share) const {
  return fits_alone(config_.policy.groups, size, share);
}

// Of all blocks of so many tokens, those that are there at once.
std::int64_t KvCache::most_blocks(const CacheGroupConfig& group, const TextSize& size) const {
  const Retention& retention = group.retention;
  const Position tokens = group.source() ? size.source : size.tokens;
  if (group.state()) return static_cast<std::int64_t>(tokens > 0);
  const auto holding = [this](Position some) { return blocks_for(some, config_.block_tokens); };
  if (retention.full()) return holding(tokens);
  // A window may begin inside a block and end inside another, and one more is being written.
  return std::min(holding(tokens), holding(retention.span()) + 2 + holding(retention.sinks));
}

KvCache::Room KvCache::room_of(std::span<const CacheGroupConfig> groups, const TextSize& size) const {
  Room room;
  for (const CacheGroupConfig& group : groups) {
    const std::int64_t blocks = most_blocks(group, size);
    const std::int64_t per_page = config_.pages.bytes / group.block_bytes;
    room.pages += (blocks + per_page - 1) / per_page;
    room.bytes += blocks * group.block_bytes;
  }
  return room;
}

bool KvCache::fits_alone(std::span<const CacheGroupConfig> groups, const TextSize& size, const TenantShare& share,
                         std::int64_t kept_bytes) const {
  if (!fits_a_page(groups)) return false;
  const Room room = room_of(groups, size);
  return room.pages + kept_bytes / config_.pages.bytes <= std::ssize(pages_) && room.bytes <= limits_of(share).most;
}

}  // namespace kvasir
