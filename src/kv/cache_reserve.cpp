// Room for the next tokens: what a lease needs of each group, whether it may be had, and how blocks are taken.
// Whether is decided before anything changes, so that a refusal costs nothing.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/cache.h"

namespace kvasir {

// Without the copy of an open block that nobody else holds: at worst it loses its name.
KvCache::Need KvCache::need_of(const LeaseState& state, size_t i, Position target) const {
  const Group& group = group_of(state, i);
  const BlockTable& table = state.tables[i];
  const auto length = static_cast<Position>(state.tokens.size());
  const std::int64_t rows = length - state.evicted[i];
  const bool writes_state = group.config.written_state();
  Need need;
  if (group.config.kept_state()) return need;  // see keep_state()
  need.blocks = std::max<std::int64_t>(table_size(state, group, target - state.evicted[i]) - table.size(), 0);
  if (group.config.source()) return need;
  if (!writes_state)
    need.public_blocks = std::clamp<std::int64_t>(state.public_blocks - table.size(), 0, need.blocks);
  const bool has_open = writes_state ? table.size() > 0 : rows % config_.block_tokens != 0;
  if (!has_open || target == length) return need;
  const BlockId tail = table.at(writes_state ? 0 : rows / config_.block_tokens);
  if (group.pool.refs(tail) > 1) {
    need.tail = Need::Tail::kCopy;
    ++need.blocks;
  } else if (group.index.published(tail)) {
    need.tail = Need::Tail::kSteal;
  }
  return need;
}

std::vector<KvCache::Need> KvCache::needs_of(const LeaseState& state, Position target) const {
  std::vector<Need> needs;
  for (size_t i = 0; i < state.tables.size(); ++i) needs.push_back(need_of(state, i, target));
  for (Need& need : needs) {
    if (need.tail != Need::Tail::kSteal) continue;
    const Need without = need;
    need.tail = Need::Tail::kCopy;
    ++need.blocks;
    if (shortage_of(state.policy, state.tenant.id, needs) != Shortage::kNone) need = without;
  }
  return needs;
}

KvCache::Shortage KvCache::shortage_of(PolicyId policy, std::uint32_t tenant, std::span<const Need> needs) const {
  if (!pages_suffice(policy, owner_of(tenant), needs)) return Shortage::kPool;
  const Owners::Book book = owners_->of(owner_of(tenant));
  const std::int64_t bytes = own_bytes(policy, needs);
  return bytes == 0 || bytes <= book.limits.most - book.held ? Shortage::kNone : Shortage::kQuota;
}

std::int64_t KvCache::own_bytes(PolicyId policy, std::span<const Need> needs) const {
  std::int64_t bytes = 0;
  for (size_t i = 0; i < needs.size(); ++i) {
    const Group& group = groups_[policies_[policy].groups[i]];
    bytes += (needs[i].blocks - needs[i].public_blocks) * group.config.block_bytes;
  }
  return bytes;
}

KvCache::Shortage KvCache::shortage(const KvLease& lease, std::int64_t tokens) const {
  const LeaseState& state = *lease.state_;
  return shortage_of(state.policy, state.tenant.id, needs_of(state, lease.length() + tokens));
}

KvCache::Shortage KvCache::shortage(PolicyId policy, std::uint32_t tenant, const Growth& growth) const {
  std::vector<Need> needs;
  for (const size_t group : policies_[policy].groups) {
    const CacheGroupConfig& config = groups_[group].config;
    const std::int64_t kept = most_blocks(config, {growth.tokens, growth.source});
    const std::int64_t own = blocks_for(growth.tokens, config_.block_tokens) - growth.shared_blocks;
    const std::int64_t rows = std::max<std::int64_t>(std::min(kept, own), 0) + growth.more_blocks;
    needs.push_back({config.rows() ? rows : kept});
  }
  return shortage_of(policy, tenant, needs);
}

// Most tokens of an answer go into a block that is there already.
bool KvCache::has_room(const LeaseState& state, Position target) const {
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Need need = need_of(state, i, target);
    if (need.blocks > 0 || need.tail != Need::Tail::kWrite) return false;
  }
  return true;
}

bool KvCache::reserve(KvLease& lease, std::int64_t tokens) {
  CHECK(lease.valid() && lease.cache_ == this && tokens >= 0);
  LeaseState& state = *lease.state_;
  const Position target = lease.length() + tokens;
  if (has_room(state, target)) return true;
  const std::vector<Need> needs = needs_of(state, target);
  if (shortage_of(state.policy, state.tenant.id, needs) != Shortage::kNone) return false;
  ++tick_;
  const PrefixIndex::Eviction why{tick_, now_, state.tenant.id, state.request, false};
  evict_over_quota(state, needs, why);
  ensure_blocks(state, needs, why);
  for (size_t i = 0; i < needs.size(); ++i) {
    make_tail_writable(state, i, needs[i].tail);
    Group& group = group_of(state, i);
    while (state.tables[i].size() < table_size(state, group, target - state.evicted[i])) {
      state.tables[i].append(take(group, state, state.tables[i].size()));
      if (group.config.live_state()) go_on_from_kept(state, i);
    }
  }
  // Room for their tokens now: what is written into blocks that are there allocates nothing.
  const auto tokens_then = static_cast<size_t>(blocks_for(target, config_.block_tokens) * config_.block_tokens);
  if (state.tokens.capacity() < tokens_then) state.tokens.reserve(std::max(tokens_then, 2 * state.tokens.capacity()));
  return true;
}

bool KvCache::reserve_free(KvLease& lease, std::int64_t tokens) {
  const LeaseState& state = *lease.state_;
  const Position target = lease.length() + tokens;
  if (has_room(state, target)) return true;
  std::vector<Need> needs;
  std::int64_t pages = 0;  // that would hold all of it, were it elsewhere
  bool lacking = false;    // a state's room, which is another group's as long as nobody needs it
  for (size_t i = 0; i < state.tables.size(); ++i) {
    needs.push_back(need_of(state, i, target));
    if (needs.back().tail == Need::Tail::kSteal) return false;
    const Group& group = group_of(state, i);
    const bool fits = needs.back().blocks <= group.pool.free_blocks();
    if (!fits && !group.config.state()) return false;
    lacking = lacking || !fits;
    pages += pages_for(group, needs.back().blocks);
  }
  if (lacking && pages > std::ranges::count(pages_, 0, &Page::filled)) return false;
  const Owners::Book book = owners_->of(owner_of(state.tenant.id));
  const std::int64_t bytes = own_bytes(state.policy, needs);
  if (bytes > 0 && book.has > book.limits.most - bytes) return false;  // its own would go
  return reserve(lease, tokens);
}

void KvCache::make_tail_writable(LeaseState& state, size_t i, Need::Tail how) {
  if (how == Need::Tail::kWrite) return;
  Group& group = group_of(state, i);
  BlockTable& table = state.tables[i];
  const std::int64_t block_index =
      group.config.written_state() ? 0 : static_cast<std::int64_t>(state.tokens.size()) / config_.block_tokens;
  const BlockId old = table.at(block_index);
  if (how == Need::Tail::kSteal) {
    forget(group, old, group.pool.owner(old), {tick_, now_, state.tenant.id, state.request, false});
    return;
  }
  const BlockId copy = take(group, state, block_index);
  copies_.push_back({group.id, old, group.id, copy});
  ++stats_.copied_blocks;
  table.replace(block_index, copy);
  unref_block(group, old);
}

// Blocks wholly inside a public text are nobody's. A state goes on behind it.
OwnerId KvCache::owner_of_block(const Group& group, const LeaseState& state, std::int64_t block_index) const {
  return group.config.rows() && block_index < state.public_blocks ? 0 : owner_of(state.tenant.id);
}

BlockId KvCache::take(Group& group, const LeaseState& state, std::int64_t block_index) {
  const OwnerId owner = owner_of_block(group, state, block_index);
  const std::optional<BlockPool::Taken> taken = group.pool.take(owner);
  CHECK(taken.has_value());  // the caller counted
  Page& page = page_of(group, taken->block);
  ++page.held;
  if (taken->was == BlockPool::State::kEvictable) {
    if (taken->from > 0) ++tenants_[taken->from - 1].evicted_blocks;
    forget(group, taken->block, taken->from, {tick_, now_, state.tenant.id, state.request, false});
  } else {
    ++page.filled;
  }
  note(CacheEvent::Kind::kTaken, group, taken->block, state);
  return taken->block;
}

void KvCache::evict(Group& group, BlockId block, const PrefixIndex::Eviction& why) {
  const OwnerId owner = group.pool.owner(block);
  if (owner > 0) ++tenants_[owner - 1].evicted_blocks;
  group.pool.evict(block);
  --page_of(group, block).filled;
  forget(group, block, owner, why);
}

// The block's content loses its name. What it continued may now be at the end of its chain, and the next to go.
void KvCache::forget(Group& group, BlockId block, OwnerId owner, const PrefixIndex::Eviction& why) {
  const Key256 parent = group.index.entry(block).parent;
  note_parent_changed(group, group.index.entry(block).key);
  stats_.block_lifetime.observe(now_ - group.index.entry(block).born_time);
  stats_.block_idle.observe(now_ - group.last_use[static_cast<size_t>(block)].time);
  PrefixIndex::Eviction how = why;
  how.superseded = superseded(group, block);
  group.index.remove(block, how);
  ++stats_.evicted_blocks;
  ++policies_[group.policy].stats.evicted_blocks;
  note({.kind = CacheEvent::Kind::kEvicted,
        .group = group.id,
        .block = block,
        .owner = owner,
        .tenant = why.tenant,
        .request = why.request});
  group.pool.touch(block);
  const std::optional<BlockId> before = group.index.block_of(parent);
  if (before && group.pool.state(*before) == BlockPool::State::kInterior && !group.index.has_children(parent)) {
    group.pool.make_evictable(*before, use_of(group, *before));
  }
}

std::vector<BlockCopy> KvCache::take_copies() { return std::exchange(copies_, {}); }

}  // namespace kvasir
