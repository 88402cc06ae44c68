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

void KvCache::commit(KvLease& lease, std::span<const TokenId> tokens) {
  CHECK(lease.valid() && lease.cache_ == this);
  LeaseState& state = *lease.state_;
  ++tick_;
  state.tokens.insert(state.tokens.end(), tokens.begin(), tokens.end());
  const Position length = lease.length();
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Group& group = group_of(state, i);
    CHECK(table_size(state, group, lease.rows(i)) <= state.tables[i].size());
    if (!group.config.written_state() || tokens.empty()) continue;
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
    group.last_use[static_cast<size_t>(block)].standing = StateStanding::kNewest;
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
  std::erase_if(state.state_places, [length](Position place) { return place > length; });
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
  Group::Use& use = group.last_use[static_cast<size_t>(block)];
  use.tick = tick_;
  use.time = now_;
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
  const Group::Use& use = group.last_use[static_cast<size_t>(block)];
  return {entry.born, use.tick, saves * (config_.recompute.constant + config_.recompute.per_position * middle),
          static_cast<std::uint64_t>(group.config.block_bytes), superseded(group, block)};
}

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
