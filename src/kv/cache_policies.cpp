// KvCache by policy: groups come and go, and share the pages.
#include <algorithm>

#include "base/check.h"
#include "kv/cache.h"

namespace kvasir {

bool KvCache::fits_a_page(std::span<const CacheGroupConfig> groups) const {
  return std::ranges::all_of(
      groups, [this](const CacheGroupConfig& group) { return group.block_bytes <= config_.pages.bytes; });
}

PolicyId KvCache::add_policy(CachePolicy added) {
  CHECK(fits_a_page(added.groups) && (added.groups.empty() || added.groups.front().rows()));
  const auto unused = std::ranges::find_if(policies_, [](const Policy& policy) { return policy.groups.empty(); });
  const auto id = static_cast<PolicyId>(unused - policies_.begin());
  if (unused == policies_.end()) policies_.emplace_back();
  Policy& policy = policies_[id];
  policy.key = added.key;
  policy.sharing = added.sharing;
  for (const CacheGroupConfig& config : added.groups) {
    const auto place = std::ranges::find(groups_, kDropped, &Group::policy);
    const auto group = static_cast<size_t>(place - groups_.begin());
    Group made{config,
               group,
               id,
               config_.pages.bytes / config.block_bytes,
               BlockPool(make_eviction_policy(config_.eviction), owners_, config.block_bytes),
               PrefixIndex(0, config_.block_tokens),
               {}};
    if (watched_) made.pool.track_changes(BlockPool::Tracking::kOn);
    if (place == groups_.end()) {
      groups_.push_back(std::move(made));
    } else {
      *place = std::move(made);
    }
    policy.groups.push_back(group);
  }
  if (policy.groups.empty()) return id;  // of a model that caches nothing
  policy.full_attention_group = policy.groups.front();
  for (const size_t group : policy.groups) {
    policy.states = policy.states || groups_[group].config.state();
    if (groups_[group].chained() && groups_[group].config.rows()) policy.full_attention_group = group;
  }
  CHECK(!policy.states || policy.sharing == CachePolicy::Sharing::kByName);
  return id;
}

size_t KvCache::table_of(const Group& group) const {
  const std::vector<size_t>& ids = policies_[group.policy].groups;
  return static_cast<size_t>(std::ranges::find(ids, group.id) - ids.begin());
}

bool KvCache::in_use(PolicyId policy) const {
  return std::ranges::any_of(leases_, [policy](const LeaseState* lease) { return lease->policy == policy; });
}

void KvCache::drop_policy(PolicyId id) {
  CHECK(id > 0 && id < policies_.size() && !in_use(id));
  ++tick_;
  for (PageId page = 0; page < std::ssize(pages_); ++page) {
    if (groups_[page_at(page).group].policy == id) {
      reassign_page(page, groups_.front(), {tick_, now_, kSystemTenant, 0, false});
    }
  }
  for (const size_t group : policies_[id].groups) groups_[group].policy = kDropped;
  policies_[id] = {};
}

PolicyStats KvCache::policy_stats(PolicyId id) const {
  PolicyStats out = policies_[id].stats;
  for (const size_t g : policies_[id].groups) {
    const BlockPool& pool = groups_[g].pool;
    out.blocks += pool.size() - pool.free_blocks();
    out.bytes += (pool.size() - pool.free_blocks()) * groups_[g].config.block_bytes;
  }
  return out;
}

}  // namespace kvasir
