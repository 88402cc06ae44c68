#include "kv/cache.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace kvasir {
namespace {

Key256 root_key(const Tenant& tenant, const Key256& policy_key) {
  const std::string_view policy(reinterpret_cast<const char*>(policy_key.bytes.data()), policy_key.bytes.size());
  const std::array<std::string_view, 2> parts{"kvasir root", policy};
  return keyed_hash(tenant.secret, parts);
}

std::int64_t blocks_holding(Position tokens, int block_tokens) { return (tokens + block_tokens - 1) / block_tokens; }

}  // namespace

std::vector<BlockId> blocks_in_order(std::int64_t blocks) {
  std::vector<BlockId> order(static_cast<size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

KvCache::KvCache(CacheConfig config) : config_(std::move(config)) {
  CHECK(config_.block_tokens > 0 && !config_.groups.empty());
  for (const CacheGroupConfig& group : config_.groups) {
    const auto blocks = static_cast<std::int64_t>(group.free_order.size());
    groups_.push_back({group, BlockPool(group.free_order, make_eviction_policy(config_.eviction)),
                       PrefixIndex(blocks, config_.block_tokens),
                       std::vector<std::uint64_t>(static_cast<size_t>(blocks))});
    if (group.retention.full() && !groups_[widest_].config.retention.full()) widest_ = groups_.size() - 1;
  }
}

KvCache::~KvCache() { CHECK(leases_.empty()); }

std::span<const TokenId> KvCache::slot_tokens(std::span<const TokenId> tokens, std::int64_t slot) const {
  const auto size = static_cast<size_t>(config_.block_tokens);
  return tokens.subspan(static_cast<size_t>(slot) * size, size);
}

// --- open
// -----------------------------------------------------------------------------------------------------------

KvCache::Opened KvCache::open(std::span<const TokenId> tokens, const Tenant& tenant) {
  CHECK(!tokens.empty());
  ++tick_;
  auto state = std::make_unique<LeaseState>(blank(tenant));
  const Found found = find(tokens, *state);
  pin(found, tokens, *state);

  ReuseReport report;
  report.prompt_tokens = static_cast<std::int64_t>(tokens.size());
  report.reused_tokens = static_cast<std::int64_t>(state->tokens.size());
  report.stopped_at = report.reused_tokens;
  report.stop = found.stop;
  report.evicted_tick = found.evicted_tick;
  stats_.queried_tokens += report.prompt_tokens;
  stats_.hit_tokens += report.reused_tokens;
  TenantStats& theirs = tenants_[tenant.id].stats;
  theirs.queried_tokens += report.prompt_tokens;
  theirs.hit_tokens += report.reused_tokens;
  leases_.push_back(state.get());
  return {KvLease(this, std::move(state)), report};
}

LeaseState KvCache::blank(const Tenant& tenant) const {
  LeaseState state;
  state.tenant = tenant;
  state.root = root_key(tenant, config_.policy_key);
  state.tables.resize(groups_.size());
  state.dropped_upto.resize(groups_.size());
  return state;
}

Position KvCache::reusable(std::span<const TokenId> tokens, const Tenant& tenant) const {
  const Found found = find(tokens, blank(tenant));
  return found.slots * config_.block_tokens + found.tail;
}

KvCache::Found KvCache::find(std::span<const TokenId> tokens, const LeaseState& state) const {
  Found found;
  found.blocks.resize(groups_.size());
  if (config_.reuse == CacheConfig::Reuse::kOff) {
    found.stop = ReuseStop::kOff;
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
    const Key256& parent = slot == 0 ? state.root : found.keys.back();
    const Key256 key = chain_hash(state.tenant.secret, parent, wanted);
    bool run_ends = false;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const BlockId block = groups_[g].index.find(key, wanted).value_or(kNoBlock);
      found.blocks[g].push_back(block);
      run_ends |= block == kNoBlock && groups_[g].config.retention.full();
    }
    if (run_ends) break;
    found.keys.push_back(key);
  }
  found.slots = static_cast<std::int64_t>(found.keys.size());
  const std::int64_t longest = found.slots;
  const auto all_serve = [&](std::int64_t slots) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!serves(groups_[g], found.blocks[g], slots)) return false;
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
      slot = std::min(slot, blocks_holding(group.config.retention.sinks, config_.block_tokens));
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
  const Key256& parent = found.slots == 0 ? state.root : found.keys.back();
  const auto agreed = groups_[widest_].index.longest_agreement(parent, tokens.subspan(first, most));
  if (agreed.tokens == 0) return;
  const Key256& key = groups_[widest_].index.entry(agreed.block).key;
  std::vector<BlockId> blocks;
  for (const Group& group : groups_) {
    const std::optional<BlockId> block = group.index.block_of(key);
    if (!block) {  // every group had it once
      found.stop = ReuseStop::kEvicted;
      found.evicted_tick = group.index.evicted_at(key).value_or(0);
      return;
    }
    blocks.push_back(*block);
  }
  for (size_t g = 0; g < groups_.size(); ++g) found.blocks[g].push_back(blocks[g]);
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
  const Key256& parent = found.slots == 0 ? state.root : found.keys.back();
  if (left + found.tail >= config_.block_tokens) {
    const Key256 next = chain_hash(state.tenant.secret, parent, slot_tokens(tokens, found.slots));
    for (const Group& group : groups_) {
      const std::optional<std::uint64_t> tick = group.index.evicted_at(next);
      if (!tick) continue;
      found.stop = ReuseStop::kEvicted;
      found.evicted_tick = *tick;
      return;
    }
  }
  if (groups_[widest_].index.has_children(parent)) {
    found.stop = ReuseStop::kDiverged;
  } else {
    found.stop = left < config_.block_tokens ? ReuseStop::kShortTail : ReuseStop::kNeverSeen;
  }
}

void KvCache::pin(const Found& found, std::span<const TokenId> tokens, LeaseState& state) {
  const std::int64_t size = config_.block_tokens;
  const Position length = found.slots * size + found.tail;
  state.keys = found.keys;
  state.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length));
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Retention& retention = groups_[g].config.retention;
    for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(found.blocks[g].size()); ++slot) {
      const bool needed = retention.needed(slot * size, slot * size + size - 1, length);
      const BlockId block = needed ? found.blocks[g][static_cast<size_t>(slot)] : kNoBlock;
      if (needed) hold(groups_[g], block);
      state.tables[g].append(block);
    }
  }
}

// --- reserve
// --------------------------------------------------------------------------------------------------------

std::optional<KvCache::Need> KvCache::need_of(const LeaseState& state, size_t group, Position target) const {
  const BlockPool& pool = groups_[group].pool;
  const BlockTable& table = state.tables[group];
  const auto length = static_cast<Position>(state.tokens.size());
  Need need;
  need.blocks = std::max<std::int64_t>(blocks_holding(target, config_.block_tokens) - table.slots(), 0);
  if (length % config_.block_tokens != 0 && target > length) {
    const BlockId tail = table.at(length / config_.block_tokens);
    const bool shared = pool.refs(tail) > 1;
    if (shared || groups_[group].index.published(tail)) need.tail = Need::Tail::kCopy;
    if (need.tail == Need::Tail::kCopy && !shared && need.blocks == pool.available()) need.tail = Need::Tail::kSteal;
  }
  if (need.tail == Need::Tail::kCopy) ++need.blocks;
  if (need.blocks > pool.available()) return std::nullopt;
  return need;
}

bool KvCache::reserve(KvLease& lease, std::int64_t tokens) {
  CHECK(lease.valid() && lease.cache_ == this && tokens >= 0);
  LeaseState& state = *lease.state_;
  const Position target = lease.length() + tokens;
  std::vector<Need> needs;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::optional<Need> need = need_of(state, g, target);
    if (!need) return false;
    needs.push_back(*need);
  }
  ++tick_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    make_tail_writable(state, g, needs[g].tail);
    while (state.tables[g].slots() < blocks_holding(target, config_.block_tokens)) state.tables[g].append(take(g));
  }
  return true;
}

void KvCache::make_tail_writable(LeaseState& state, size_t group, Need::Tail how) {
  if (how == Need::Tail::kWrite) return;
  BlockTable& table = state.tables[group];
  const std::int64_t slot = static_cast<std::int64_t>(state.tokens.size()) / config_.block_tokens;
  const BlockId old = table.at(slot);
  if (how == Need::Tail::kSteal) {
    forget(groups_[group], old);
    note(CacheEvent::Kind::kEvicted, group, old);
    return;
  }
  const BlockId copy = take(group);
  copies_.push_back({group, old, copy});
  ++stats_.copied_blocks;
  table.replace(slot, copy);
  let_go(groups_[group], old);
}

BlockId KvCache::take(size_t group) {
  Group& from = groups_[group];
  const std::optional<BlockPool::Taken> taken = from.pool.take();
  CHECK(taken.has_value());  // the caller counted
  if (taken->was == BlockPool::State::kEvictable) {
    forget(from, taken->block);
    note(CacheEvent::Kind::kEvicted, group, taken->block);
  }
  return taken->block;
}

// The block's content loses its name. What it continued may now be at the end of its chain, and the next to go.
void KvCache::forget(Group& group, BlockId block) {
  const Key256 parent = group.index.entry(block).parent;
  group.index.remove(block, tick_);
  ++stats_.evicted_blocks;
  const std::optional<BlockId> before = group.index.block_of(parent);
  if (before && group.pool.state(*before) == BlockPool::State::kCovered && !group.index.has_children(parent)) {
    group.pool.make_evictable(*before, use_of(group, *before));
  }
}

std::vector<BlockCopy> KvCache::take_copies() { return std::exchange(copies_, {}); }

// --- commit, truncate, fork, release
// --------------------------------------------------------------------------------

void KvCache::commit(KvLease& lease, std::span<const TokenId> tokens) {
  CHECK(lease.valid() && lease.cache_ == this);
  LeaseState& state = *lease.state_;
  ++tick_;
  state.tokens.insert(state.tokens.end(), tokens.begin(), tokens.end());
  const Position length = lease.length();
  for (const BlockTable& table : state.tables) CHECK(length <= table.slots() * config_.block_tokens);
  const std::int64_t full = length / config_.block_tokens;
  for (auto slot = static_cast<std::int64_t>(state.keys.size()); slot < full; ++slot) publish(state, slot);
  for (size_t g = 0; g < groups_.size(); ++g) drop_unneeded(state, g);
}

void KvCache::publish(LeaseState& state, std::int64_t slot) {
  const std::span<const TokenId> tokens = slot_tokens(state.tokens, slot);
  const Key256 parent = slot == 0 ? state.root : state.keys.back();
  const Key256 key = chain_hash(state.tenant.secret, parent, tokens);
  state.keys.push_back(key);
  if (config_.reuse == CacheConfig::Reuse::kOff) return;
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    const BlockId block = state.tables[g].at(slot);
    if (block == kNoBlock || group.index.published(block)) continue;
    if (group.index.insert(block, {key, parent, slot, tick_}, tokens)) {
      ++stats_.published_blocks;
      note(CacheEvent::Kind::kPublished, g, block);
      continue;
    }
    // Somebody else computed the same block meanwhile: same name, same bytes. Hold theirs, give ours back.
    const std::optional<BlockId> twin = group.index.find(key, tokens);
    if (!twin) continue;  // a collision: ours stays private
    hold(group, *twin);
    state.tables[g].replace(slot, *twin);
    let_go(group, block);
    ++stats_.deduplicated_blocks;
  }
}

void KvCache::drop_unneeded(LeaseState& state, size_t g) {
  const Retention& retention = groups_[g].config.retention;
  if (retention.full()) return;
  const std::int64_t size = config_.block_tokens;
  const auto length = static_cast<Position>(state.tokens.size());
  BlockTable& table = state.tables[g];
  std::int64_t& slot = state.dropped_upto[g];
  for (; (slot + 1) * size <= length; ++slot) {
    if (retention.needed(slot * size, slot * size + size - 1, length)) {
      if (slot * size < retention.sinks) continue;
      return;
    }
    if (table.hole(slot)) continue;
    let_go(groups_[g], table.at(slot));
    table.make_hole(slot);
  }
}

void KvCache::truncate(KvLease& lease, Position length) {
  CHECK(lease.valid() && lease.cache_ == this && length >= 0 && length <= lease.length());
  LeaseState& state = *lease.state_;
  ++tick_;
  const std::int64_t keep = blocks_holding(length, config_.block_tokens);
  for (size_t g = 0; g < groups_.size(); ++g) {
    BlockTable& table = state.tables[g];
    while (table.slots() > keep) {
      const BlockId last = table.at(table.slots() - 1);
      table.drop_last();
      if (last != kNoBlock) let_go(groups_[g], last);
    }
    // A window that slid on cannot slide back: the caller may not return to where a dropped block is needed.
    const std::int64_t size = config_.block_tokens;
    for (std::int64_t slot = 0; slot < keep; ++slot) {
      const bool needed = groups_[g].config.retention.needed(slot * size, slot * size + size - 1, length);
      CHECK(!(table.hole(slot) && needed));
    }
    state.dropped_upto[g] = std::min(state.dropped_upto[g], keep);
  }
  state.tokens.resize(static_cast<size_t>(length));
  state.keys.resize(static_cast<size_t>(length / config_.block_tokens));
}

KvLease KvCache::fork(const KvLease& lease) {
  CHECK(lease.valid() && lease.cache_ == this);
  ++tick_;
  auto state = std::make_unique<LeaseState>(*lease.state_);
  const std::int64_t written = blocks_holding(lease.length(), config_.block_tokens);
  for (size_t g = 0; g < groups_.size(); ++g) {
    BlockTable& table = state->tables[g];
    while (table.slots() > written) table.drop_last();  // what the other has reserved is its own
    for (std::int64_t slot = 0; slot < written; ++slot) {
      if (!table.hole(slot)) hold(groups_[g], table.at(slot));
    }
  }
  leases_.push_back(state.get());
  return {this, std::move(state)};
}

void KvCache::release(LeaseState& state) {
  ++tick_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (std::int64_t slot = state.tables[g].slots() - 1; slot >= 0; --slot) {
      if (!state.tables[g].hole(slot)) let_go(groups_[g], state.tables[g].at(slot));
    }
  }
  std::erase(leases_, &state);
}

void KvCache::hold(Group& group, BlockId block) { group.pool.ref(block); }

void KvCache::let_go(Group& group, BlockId block) {
  group.last_use[static_cast<size_t>(block)] = tick_;
  if (group.pool.unref(block) == 0) settle(group, block);
}

// What becomes of a block that nobody holds any more.
void KvCache::settle(Group& group, BlockId block) {
  if (!group.index.published(block)) {
    group.pool.make_free(block);
  } else if (group.config.retention.full() && group.index.has_children(group.index.entry(block).key)) {
    group.pool.make_covered(block);  // a chain is of no use without its start: it goes from its end
  } else {
    group.pool.make_evictable(block, use_of(group, block));
  }
}

BlockUse KvCache::use_of(const Group& group, BlockId block) const {
  const PrefixIndex::Entry& entry = group.index.entry(block);
  const auto size = static_cast<std::uint64_t>(config_.block_tokens);
  const std::uint64_t middle = static_cast<std::uint64_t>(entry.slot) * size + size / 2;
  return {entry.born, group.last_use[static_cast<size_t>(block)],
          size * (config_.recompute.constant + config_.recompute.per_position * middle),
          static_cast<std::uint64_t>(group.config.block_bytes)};
}

// --- the rest
// -------------------------------------------------------------------------------------------------------

void KvCache::note(CacheEvent::Kind kind, size_t group, BlockId block) {
  if (listening_) events_.push_back({kind, group, block, tick_});
}

TenantStats KvCache::tenant_stats(std::uint32_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? TenantStats{} : found->second.stats;
}

std::vector<CacheEvent> KvCache::take_events() { return std::exchange(events_, {}); }

bool KvCache::fits_alone(Position length) const {
  return std::ranges::all_of(groups_, [&](const Group& group) {
    const Retention& kept = group.config.retention;
    std::int64_t blocks = blocks_holding(length, config_.block_tokens);
    if (!kept.full()) {
      // A window may begin inside a block and end inside another, and one more is being written.
      const std::int64_t window = blocks_holding(kept.window, config_.block_tokens) + 2;
      blocks = std::min(blocks, window + blocks_holding(kept.sinks, config_.block_tokens));
    }
    return blocks <= group.pool.size();
  });
}

}  // namespace kvasir
