#include "kv/cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace kvasir {

std::vector<std::int32_t> in_order(std::int64_t count) {
  std::vector<std::int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

KvCache::KvCache(CacheConfig config) : config_(std::move(config)), pages_(config_.pages.order.size()) {
  CHECK(config_.block_tokens > 0);
  add_policy(config_.policy);
  assign_pages();
}

KvCache::~KvCache() { CHECK(leases_.empty()); }

std::span<const TokenId> KvCache::tokens_of_block(std::span<const TokenId> tokens, std::int64_t block_index) const {
  const auto size = static_cast<size_t>(config_.block_tokens);
  return tokens.subspan(static_cast<size_t>(block_index) * size, size);
}

// --- reserve

// Without the copy of an open block that nobody else holds: at worst it loses its name.
KvCache::Need KvCache::need_of(const LeaseState& state, size_t i, Position target) const {
  const Group& group = group_of(state, i);
  const BlockTable& table = state.tables[i];
  const auto length = static_cast<Position>(state.tokens.size());
  const std::int64_t rows = length - state.evicted[i];
  const bool writes_state = group.config.state();
  Need need;
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
  for (size_t i = 0; i < state.tables.size(); ++i) {
    needs.push_back(need_of(state, i, target));
    if (needs.back().tail == Need::Tail::kSteal) return false;
    if (needs.back().blocks > group_of(state, i).pool.free_blocks()) return false;
  }
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
      group.config.state() ? 0 : static_cast<std::int64_t>(state.tokens.size()) / config_.block_tokens;
  const BlockId old = table.at(block_index);
  if (how == Need::Tail::kSteal) {
    forget(group, old, group.pool.owner(old), {tick_, now_, state.tenant.id, state.request, false});
    return;
  }
  const BlockId copy = take(group, state, block_index);
  copies_.push_back({group.id, old, copy});
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
  group.index.remove(block, why);
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

// --- commit, truncate, fork, release

void KvCache::commit(KvLease& lease, std::span<const TokenId> tokens) {
  CHECK(lease.valid() && lease.cache_ == this);
  LeaseState& state = *lease.state_;
  ++tick_;
  state.tokens.insert(state.tokens.end(), tokens.begin(), tokens.end());
  const Position length = lease.length();
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Group& group = group_of(state, i);
    CHECK(table_size(state, group, lease.rows(i)) <= state.tables[i].size());
    if (!group.config.state() || tokens.empty()) continue;
    const BlockId written = state.tables[i].at(0);
    CHECK(group.pool.refs(written) == 1 && !group.index.published(written));  // see reserve()
  }
  const std::int64_t full = shares(state.policy) ? length / config_.block_tokens : 0;
  for (auto block_index = static_cast<std::int64_t>(state.keys.size()); block_index < full; ++block_index)
    publish(state, block_index);
  for (size_t i = 0; i < state.tables.size(); ++i) drop_unneeded(state, i);
}

void KvCache::publish(LeaseState& state, std::int64_t block_index) {
  const std::span<const TokenId> tokens = tokens_of_block(state.tokens, block_index);
  check_public(state, block_index);
  const Key256 parent = parent_of(state, state.keys, block_index);
  const Key256 key = key_of(state, parent, block_index, tokens);
  state.keys.push_back(key);
  if (config_.reuse == CacheConfig::Reuse::kOff) return;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    if (!group_of(state, i).config.rows()) continue;  // see keep_state() and commit_source()
    publish_block(state, i, block_index, {key, parent, block_index, tick_, now_, config_.block_tokens});
  }
}

// The block at this place of the table gets its name.
void KvCache::publish_block(LeaseState& state, size_t i, std::int64_t place, const PrefixIndex::Entry& as) {
  Group& group = group_of(state, i);
  const BlockId block = state.tables[i].at(place);
  if (block == kNoBlock || group.index.published(block)) return;
  // What was taken for everybody may have become private text. A chain is of one owner, or else it would hold back
  // what others are counted to have.
  const OwnerId owner = owner_of_block(group, state, as.block_index);
  if (group.pool.owner(block) != owner) group.pool.give(block, owner);
  const std::vector<TokenId>& text = group.config.source() ? state.source.tokens : state.tokens;
  const std::span<const TokenId> tokens = tokens_of_block(text, as.block_index);
  if (group.index.insert(block, as, tokens)) {
    ++stats_.published_blocks;
    group.pool.touch(block);
    note_parent_changed(group, as.key);
    return note(CacheEvent::Kind::kPublished, group, block, state);
  }
  // Somebody else computed the same block meanwhile: same name, same bytes. Hold theirs, give ours back.
  const std::optional<BlockId> twin = group.index.find(as.key, tokens);
  if (!twin) return;  // a collision: ours stays private
  ref_block(group, *twin);
  state.tables[i].replace(place, *twin);
  unref_block(group, block);
  ++stats_.deduplicated_blocks;
}

bool KvCache::needs_block(const Retention& retention, std::int64_t block_index, Position length) const {
  const Position first = block_index * config_.block_tokens;
  return retention.needed(first, first + config_.block_tokens - 1, length);
}

void KvCache::drop_unneeded(LeaseState& state, size_t i) {
  Group& group = group_of(state, i);
  const Retention& retention = group.config.retention;
  if (retention.full()) return;
  const std::int64_t size = config_.block_tokens;
  const auto length = static_cast<Position>(state.tokens.size());
  BlockTable& table = state.tables[i];
  std::int64_t& block_index = state.dropped_upto[i];
  for (; (block_index + 1) * size <= length; ++block_index) {
    if (needs_block(retention, block_index, length)) {
      if (block_index * size < retention.sinks) continue;
      return;
    }
    if (table.hole(block_index)) continue;
    unref_block(group, table.at(block_index));
    table.make_hole(block_index);
  }
}

void KvCache::shrink(KvLease& lease, size_t i, std::int64_t rows) {
  CHECK(lease.valid() && lease.cache_ == this && !shares(lease.policy()));
  LeaseState& state = *lease.state_;
  CHECK(rows >= 0 && rows <= lease.rows(i) && group_of(state, i).config.retention.full());
  ++tick_;
  policies_[lease.policy()].stats.evicted_rows += lease.rows(i) - rows;
  state.evicted[i] = lease.length() - rows;
  shrink_table(state, i, blocks_for(rows, config_.block_tokens));
}

void KvCache::shrink_table(LeaseState& state, size_t i, std::int64_t keep) {
  BlockTable& table = state.tables[i];
  while (table.size() > keep) {
    const BlockId last = table.at(table.size() - 1);
    table.drop_last();
    if (last != kNoBlock) unref_block(group_of(state, i), last);
  }
}

void KvCache::truncate(KvLease& lease, Position length) {
  CHECK(lease.valid() && lease.cache_ == this && length >= 0 && length <= lease.length());
  CHECK(may_truncate(lease, length));
  LeaseState& state = *lease.state_;
  ++tick_;
  const std::int64_t keep = blocks_for(length, config_.block_tokens);
  for (size_t i = 0; i < state.tables.size(); ++i) {
    if (length == 0) state.evicted[i] = 0;
    shrink_table(state, i, table_size(state, group_of(state, i), length - state.evicted[i]));
    state.dropped_upto[i] = std::min(state.dropped_upto[i], keep);
  }
  if (length == 0) state.source.written = false;
  state.tokens.resize(static_cast<size_t>(length));
  state.state_from = std::min(state.state_from, length);
  state.passing_state = std::min(state.passing_state, length);
  if (shares(state.policy)) state.keys.resize(static_cast<size_t>(length / config_.block_tokens));
  end_public(state, length / config_.block_tokens);
}

bool KvCache::may_truncate(const KvLease& lease, Position length) const {
  const std::int64_t size = config_.block_tokens;
  if (has_states(lease.policy()) && length > 0 && length < lease.length()) return false;
  for (size_t i = 0; i < lease.state_->tables.size(); ++i) {
    if (lease.state_->evicted[i] > 0 && length > 0 && length < lease.length()) return false;
    const Retention& retention = group_of(*lease.state_, i).config.retention;
    if (retention.full()) continue;
    for (std::int64_t block_index = 0; block_index * size < length; ++block_index) {
      const bool needed = needs_block(retention, block_index, length);
      if (needed && lease.table(i).hole(block_index)) return false;
    }
  }
  return true;
}

KvLease KvCache::fork(const KvLease& lease) {
  CHECK(lease.valid() && lease.cache_ == this && shares(lease.policy()));
  ++tick_;
  auto state = std::make_unique<LeaseState>(*lease.state_);
  state->passing_state = 0;
  for (size_t i = 0; i < state->tables.size(); ++i) {
    BlockTable& table = state->tables[i];
    const Group& group = group_of(*state, i);
    std::int64_t written = table_size(*state, group, lease.length());
    if (group.config.source()) written = state->source.written ? table.size() : 0;
    while (table.size() > written) table.drop_last();  // what the other has reserved is its own
    for (const BlockId block : table) {
      if (block != kNoBlock) ref_block(group_of(*state, i), block);
    }
  }
  leases_.push_back(state.get());
  return {this, std::move(state)};
}

void KvCache::go_back(KvLease& lease, KvLease&& before) {
  CHECK(lease.valid() && before.valid() && lease.length() == before.length());
  before.state_->passing_state = lease.state_->passing_state;
  lease = std::move(before);
}

void KvCache::release(LeaseState& state) {
  ++tick_;
  for (size_t i = 0; i < state.tables.size(); ++i) shrink_table(state, i, 0);
  std::erase(leases_, &state);
}

void KvCache::ref_block(Group& group, BlockId block) {
  if (group.pool.refs(block) == 0) {
    stats_.block_reuse_gap.observe(now_ - group.last_use[static_cast<size_t>(block)].time);
    ++page_of(group, block).held;
  }
  group.pool.ref(block);
}

void KvCache::unref_block(Group& group, BlockId block) {
  group.last_use[static_cast<size_t>(block)] = {tick_, now_};
  if (group.pool.unref(block) > 0) return;
  Page& page = page_of(group, block);
  --page.held;
  page.newest = tick_;
  retire(group, block);
}

// What becomes of a block that nobody holds any more.
void KvCache::retire(Group& group, BlockId block) {
  if (!group.index.published(block)) {
    group.pool.make_free(block);
    --page_of(group, block).filled;
  } else if (group.chained() && group.index.has_children(group.index.entry(block).key)) {
    group.pool.make_interior(block);  // a chain is of no use without its start: it goes from its end
  } else {
    group.pool.make_evictable(block, use_of(group, block));
  }
}

BlockUse KvCache::use_of(const Group& group, BlockId block) const {
  const PrefixIndex::Entry& entry = group.index.entry(block);
  const auto size = static_cast<std::uint64_t>(config_.block_tokens);
  const auto saves = static_cast<std::uint64_t>(entry.saves);
  const std::uint64_t middle = (static_cast<std::uint64_t>(entry.block_index) + 1) * size - (saves + 1) / 2;
  return {entry.born, group.last_use[static_cast<size_t>(block)].tick,
          saves * (config_.recompute.constant + config_.recompute.per_position * middle),
          static_cast<std::uint64_t>(group.config.block_bytes)};
}

// --- the rest

std::vector<double> CacheStats::life_bounds() {
  return {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800};
}

std::int64_t KvCache::private_blocks(const KvLease& lease) const {
  std::int64_t count = 0;
  for (size_t i = 0; i < lease.state_->tables.size(); ++i) {
    const BlockPool& pool = group_of(*lease.state_, i).pool;
    count += std::ranges::count_if(lease.table(i), [&](BlockId b) { return b != kNoBlock && pool.refs(b) == 1; });
  }
  return count;
}

}  // namespace kvasir
