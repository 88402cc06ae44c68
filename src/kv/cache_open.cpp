// KvCache::open(): what a prompt finds in the cache, and why no more.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "kv/cache.h"

namespace kvasir {

KvCache::Opened KvCache::open(std::span<const TokenId> tokens, const Tenant& tenant, std::uint64_t request,
                              PolicyId policy) {
  CHECK(!tokens.empty());
  ++tick_;
  auto state = std::make_unique<LeaseState>(blank(tokens, tenant, policy));
  state->request = request;
  const Found found = find(tokens, *state);
  pin(found, tokens, *state);

  ReuseReport report;
  report.prompt_tokens = static_cast<std::int64_t>(tokens.size());
  report.reused_tokens = static_cast<std::int64_t>(state->tokens.size());
  report.stopped_at = report.reused_tokens;
  report.stop = found.stop;
  report.public_tokens = std::min(report.reused_tokens, state->public_slots * config_.block_tokens);
  if (report.stop == ReuseStop::kEvicted) {
    const PrefixIndex::Eviction& how = found.eviction;
    report.evicted_tick = how.tick;
    report.evicted_seconds_ago = now_ - how.time;
    if (how.tenant == tenant.id) {
      report.evicted_for = how.over_quota ? EvictedFor::kOwnQuota : EvictedFor::kOwnRequest;
      report.evicted_by = how.request;
    }
  }
  leases_.push_back(state.get());
  return {KvLease(this, std::move(state)), report};
}

void KvCache::count_query(const KvLease& lease, const ReuseReport& report) {
  const auto add = [&report](auto& stats) {
    stats.queried_tokens += report.prompt_tokens;
    stats.hit_tokens += report.reused_tokens;
  };
  add(stats_);
  add(policies_[lease.policy()].stats);
  add(tenants_[lease.tenant().id]);
}

LeaseState KvCache::blank(std::span<const TokenId> tokens, const Tenant& tenant, PolicyId policy) const {
  LeaseState state;
  state.tenant = tenant;
  state.policy = policy;
  if (shares(policy)) name_roots(tokens, state);
  state.evicted.resize(policies_[policy].groups.size());
  state.tables.resize(policies_[policy].groups.size());
  state.dropped_upto.resize(policies_[policy].groups.size());
  return state;
}

Position KvCache::reusable(std::span<const TokenId> tokens, const Tenant& tenant, PolicyId policy) const {
  const Found found = find(tokens, blank(tokens, tenant, policy));
  return found.slots * config_.block_tokens + found.tail;
}

std::vector<Key256> KvCache::block_names(std::span<const TokenId> tokens, const Tenant& tenant,
                                         PolicyId policy) const {
  std::vector<Key256> names;
  if (!reuses() || !shares(policy)) return names;
  const LeaseState state = blank(tokens, tenant, policy);
  const auto count = (static_cast<std::int64_t>(tokens.size()) - 1) / config_.block_tokens;
  for (std::int64_t slot = 0; slot < count; ++slot) {
    names.push_back(name_of(state, parent_of(state, names, slot), slot, slot_tokens(tokens, slot)));
  }
  return names;
}

std::int64_t KvCache::held_prefix(std::span<const TokenId> tokens, std::span<const Key256> names,
                                  PolicyId policy) const {
  const Group& group = groups_[policies_[policy].widest];
  std::int64_t slot = 0;
  for (; slot < std::ssize(names); ++slot) {
    const std::optional<BlockId> block =
        group.index.find(names[static_cast<size_t>(slot)], slot_tokens(tokens, slot));
    if (!block || group.pool.refs(*block) == 0) break;
  }
  return slot;
}

KvCache::Found KvCache::find(std::span<const TokenId> tokens, const LeaseState& state) const {
  Found found;
  found.blocks.resize(state.tables.size());
  if (config_.reuse == CacheConfig::Reuse::kOff) {
    found.stop = ReuseStop::kOff;
    return found;
  }
  if (!shares(state.policy)) {
    found.stop = ReuseStop::kPrivate;
    return found;
  }
  find_slots(tokens, state, found);
  find_tail(tokens, state, found);
  explain_stop(tokens, state, found);
  return found;
}

// Whole blocks. A group that keeps everything needs an unbroken run from the start, so the search ends at its first
// miss; a group with a window only needs what its window (and its sinks) still sees from the next position on.
void KvCache::find_slots(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const {
  const auto limit = (static_cast<std::int64_t>(tokens.size()) - 1) / config_.block_tokens;
  for (std::int64_t slot = 0; slot < limit; ++slot) {
    const std::span<const TokenId> wanted = slot_tokens(tokens, slot);
    const Key256 key = name_of(state, parent_of(state, found.keys, slot), slot, wanted);
    bool run_ends = false;
    for (size_t i = 0; i < state.tables.size(); ++i) {
      const Group& group = group_of(state, i);
      const BlockId block = group.index.find(key, wanted).value_or(kNoBlock);
      found.blocks[i].push_back(block);
      run_ends |= block == kNoBlock && group.config.retention.full();
    }
    if (run_ends) break;
    found.keys.push_back(key);
  }
  found.slots = static_cast<std::int64_t>(found.keys.size());
  const std::int64_t longest = found.slots;
  const auto all_serve = [&](std::int64_t slots) {
    for (size_t i = 0; i < state.tables.size(); ++i) {
      if (!serves(group_of(state, i), found.blocks[i], slots)) return false;
    }
    return true;
  };
  while (found.slots > 0 && !all_serve(found.slots)) --found.slots;
  // Something is cached further on, and a window is why it is of no use. Nothing is: it is not the window's fault.
  const auto cached_further_on = [&](const std::vector<BlockId>& blocks) {
    return std::any_of(blocks.begin() + found.slots, blocks.begin() + longest,
                       [](BlockId b) { return b != kNoBlock; });
  };
  if (std::ranges::any_of(found.blocks, cached_further_on)) found.stop = ReuseStop::kWindowDropped;
  found.keys.resize(static_cast<size_t>(found.slots));
  for (std::vector<BlockId>& blocks : found.blocks) blocks.resize(static_cast<size_t>(found.slots));
}

bool KvCache::serves(const Group& group, const std::vector<BlockId>& blocks, std::int64_t slots) const {
  const std::int64_t size = config_.block_tokens;
  for (std::int64_t slot = slots - 1; slot >= 0; --slot) {
    const bool needed = group.config.retention.needed(slot * size, slot * size + size - 1, slots * size);
    if (needed && blocks[static_cast<size_t>(slot)] == kNoBlock) return false;
    // Before the window only the sinks are left: jump to them.
    if (!needed && slot * size >= group.config.retention.sinks) {
      slot = std::min(slot, (group.config.retention.sinks + size - 1) / size);
    }
  }
  return true;
}

// The block that continues the whole ones may be cached with another ending: what it has in common is reused too, and
// copied before anything is written behind it.
void KvCache::find_tail(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const {
  if (found.stop == ReuseStop::kWindowDropped) return;
  const auto first = static_cast<size_t>(found.slots * config_.block_tokens);
  const size_t most = std::min(tokens.size() - 1 - first, static_cast<size_t>(config_.block_tokens));
  const Key256 parent = parent_of(state, found.keys, found.slots);
  const auto agreed = widest_of(state).index.longest_agreement(parent, tokens.subspan(first, most));
  if (agreed.tokens == 0) return;
  const Key256& key = widest_of(state).index.entry(agreed.block).key;
  std::vector<BlockId> blocks;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Group& group = group_of(state, i);
    const std::optional<BlockId> block = group.index.block_of(key);
    if (!block) {  // every group had it once
      found.stop = ReuseStop::kEvicted;
      found.eviction = group.index.eviction_of(key).value_or(PrefixIndex::Eviction{});
      return;
    }
    blocks.push_back(*block);
  }
  for (size_t i = 0; i < blocks.size(); ++i) found.blocks[i].push_back(blocks[i]);
  found.tail = agreed.tokens;
}

void KvCache::explain_stop(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const {
  const std::int64_t reused = found.slots * config_.block_tokens + found.tail;
  const std::int64_t left = static_cast<std::int64_t>(tokens.size()) - reused;
  if (left == 1) {
    found.stop = ReuseStop::kWholePrompt;
    return;
  }
  if (found.stop != ReuseStop::kNeverSeen) return;  // known already
  const Key256 parent = parent_of(state, found.keys, found.slots);
  if (left + found.tail >= config_.block_tokens) {
    const Key256 next = name_of(state, parent, found.slots, slot_tokens(tokens, found.slots));
    for (size_t i = 0; i < state.tables.size(); ++i) {
      const auto how = group_of(state, i).index.eviction_of(next);
      if (!how) continue;
      found.stop = ReuseStop::kEvicted;
      found.eviction = *how;
      return;
    }
  }
  if (widest_of(state).index.has_children(parent)) {
    found.stop = ReuseStop::kDiverged;
  } else if (left < config_.block_tokens) {
    found.stop = ReuseStop::kShortTail;
  } else if (reused == 0 && cached_otherwise(tokens, state)) {
    found.stop = ReuseStop::kOtherPolicy;
  }
}

// Whether another policy has the prompt's first block.
bool KvCache::cached_otherwise(std::span<const TokenId> tokens, const LeaseState& state) const {
  for (PolicyId policy = 0; policy < policies_.size(); ++policy) {
    if (policy == state.policy || policies_[policy].groups.empty() || !shares(policy)) continue;
    const LeaseState other = blank(tokens, state.tenant, policy);
    const Key256 key = name_of(other, other.root, 0, slot_tokens(tokens, 0));
    if (widest_of(other).index.find(key, slot_tokens(tokens, 0))) return true;
  }
  return false;
}

void KvCache::pin(const Found& found, std::span<const TokenId> tokens, LeaseState& state) {
  const std::int64_t size = config_.block_tokens;
  const Position length = found.slots * size + found.tail;
  state.keys = found.keys;
  state.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length));
  for (size_t i = 0; i < state.tables.size(); ++i) {
    Group& group = group_of(state, i);
    for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(found.blocks[i].size()); ++slot) {
      const bool needed = group.config.retention.needed(slot * size, slot * size + size - 1, length);
      const BlockId block = needed ? found.blocks[i][static_cast<size_t>(slot)] : kNoBlock;
      if (needed) hold(group, block);
      state.tables[i].append(block);
    }
  }
}

}  // namespace kvasir
