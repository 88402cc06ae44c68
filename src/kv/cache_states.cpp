// The states of recurrent layers in the cache: KvCache of groups that keep states.
//
// A lease has one state, where its text ends, and every step writes it. Kept states have the name of the block of
// rows that ends where they are, so that they are found by the same keys. To keep one is to give it that name: before
// the next step writes, the lease takes a copy for itself, as of an open block that others hold, and where there is
// no room for a copy the name is lost. So states lie at ends of blocks alone, and what is kept is never written.
//
// Where kept states have a format of their own (kLiveState, kKeptState), to keep one is to copy it: into a block that
// is taken, named and let go of at once; where there is no room for one, nothing is kept. A lease that is opened
// holds the kept state that it found, until reserve() takes the block that it writes, which begins as a copy.
//
// No state stands for another: each may be evicted by itself, as blocks behind a window may. But a text that goes on
// does so from its last state, so that a lease that keeps one supersedes those it knows of before it, and what is
// superseded goes first. Not those at places that its request expects to be gone on from (where the next prompt will
// differ, where a breakpoint is), nor those from which several texts went on: one that was found after it had been
// superseded, or is kept where a text parted from another that had none there.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "kv/cache.h"

namespace kvasir {

void KvCache::keep_state(KvLease& lease, Stay stay) {
  CHECK(lease.valid() && lease.cache_ == this);
  LeaseState& state = *lease.state_;
  const Position length = lease.length();
  if (!has_states(state.policy) || !reuses() || length == 0 || length % state_step(state.policy) != 0) return;
  const std::int64_t last = length / config_.block_tokens - 1;
  if (last < state.public_blocks && state.tenant.id != kSystemTenant) return;
  ++tick_;
  forget_passing_state(state);
  supersede_before(state, length);
  const Key256& key = state.keys.back();
  const bool known = has_states_at(state.policy, key, tokens_of_block(state.tokens, last));
  const PrefixIndex::Entry entry{key,  parent_of(state, state.keys, last), last, tick_,
                                 now_, length - state.state_from};
  bool kept = true;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const CacheGroupConfig& config = group_of(state, i).config;
    if (config.kept_state()) kept = keep_in_own_format(state, i, entry) && kept;
    if (config.named_state() && config.written_state()) publish_block(state, i, 0, entry);
  }
  if (!kept) return;
  if (state.state_places.empty() || state.state_places.back() < length) state.state_places.push_back(length);
  const bool parted = std::ranges::find(state.parted, length) != state.parted.end();
  each_state_at(state, length, [&](Group& group, BlockId block) {
    if (parted || superseded(group, block)) set_standing(group, block, StateStanding::kShared);
  });
  if (stay == Stay::kUntilEvicted) {
    state.state_from = length;
  } else if (!known) {  // what somebody else keeps is not ours to forget
    state.passing_state = length;
  }
}

// False: there is no room for it.
bool KvCache::keep_in_own_format(LeaseState& state, size_t i, const PrefixIndex::Entry& as) {
  Group& group = group_of(state, i);
  const std::span<const TokenId> text = tokens_of_block(state.tokens, as.block_index);
  if (const std::optional<BlockId> known = group.index.find(as.key, text)) {
    ref_block(group, *known);  // used just now
    unref_block(group, *known);
    return true;
  }
  std::vector<Need> needs(state.tables.size());
  needs[i].blocks = 1;
  if (shortage_of(state.policy, state.tenant.id, needs) != Shortage::kNone) return false;
  const PrefixIndex::Eviction why{tick_, now_, state.tenant.id, state.request, false};
  evict_over_quota(state, needs, why);
  ensure_blocks(state, needs, why);
  const BlockId to = take(group, state, 0);
  copies_.push_back({group_of(state, i - 1).id, state.tables[i - 1].at(0), group.id, to});
  BlockTable own = std::exchange(state.tables[i], {});
  state.tables[i].append(to);
  publish_block(state, i, 0, as);
  state.tables[i] = std::move(own);
  unref_block(group, to);
  return true;
}

// The block of the group that was just taken becomes the state that was found.
void KvCache::go_on_from_kept(LeaseState& state, size_t i) {
  BlockTable& kept = state.tables[i + 1];
  if (kept.size() == 0) return;
  const BlockId from = kept.at(0);
  copies_.push_back({group_of(state, i + 1).id, from, group_of(state, i).id, state.tables[i].at(0)});
  kept.drop_last();
  unref_block(group_of(state, i + 1), from);
}

bool KvCache::hold_kept_states(KvLease& lease) {
  LeaseState& state = *lease.state_;
  const Position length = lease.length();
  if (!has_states(state.policy)) return true;
  if (length == 0 || length % state_step(state.policy) != 0) return false;
  const std::int64_t last = length / config_.block_tokens - 1;
  if (!has_states_at(state.policy, state.keys.back(), tokens_of_block(state.tokens, last))) return false;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    Group& live = group_of(state, i);
    if (!live.config.live_state() || state.tables[i].size() == 0) continue;
    Group& kept = group_of(state, i + 1);
    const BlockId block = *kept.index.block_of(state.keys.back());
    ref_block(kept, block);
    state.tables[i + 1].append(block);
    shrink_table(state, i, 0);
  }
  return true;
}

std::int64_t KvCache::state_step(PolicyId policy) const {
  std::int64_t step = config_.block_tokens;
  for (const size_t group : policies_[policy].groups) {
    step = std::lcm(step, std::int64_t{groups_[group].config.state_step});
  }
  return step;
}

void KvCache::forget_passing_state(LeaseState& state) {
  if (state.passing_state == 0) return;
  const Key256& key = state.keys[static_cast<size_t>(state.passing_state / config_.block_tokens - 1)];
  for (size_t i = 0; i < state.tables.size(); ++i) {
    Group& group = group_of(state, i);
    if (!group.config.named_state()) continue;
    const std::optional<BlockId> block = group.index.block_of(key);
    if (!block || group.pool.state(*block) != BlockPool::State::kEvictable) continue;
    set_standing(group, *block, StateStanding::kSuperseded);
    evict(group, *block, {tick_, now_, state.tenant.id, state.request, false});
  }
  state.passing_state = 0;
}

template <class Visit>
void KvCache::each_state_at(LeaseState& state, Position place, Visit visit) {
  const Key256& key = state.keys[static_cast<size_t>(place / config_.block_tokens - 1)];
  for (size_t i = 0; i < state.tables.size(); ++i) {
    Group& group = group_of(state, i);
    if (!group.config.named_state()) continue;
    if (const std::optional<BlockId> block = group.index.block_of(key)) visit(group, *block);
  }
}

void KvCache::set_standing(Group& group, BlockId block, StateStanding standing) {
  group.last_use[static_cast<size_t>(block)].standing = standing;
  if (group.pool.state(block) == BlockPool::State::kEvictable) group.pool.rank_again(block, use_of(group, block));
}

// Of its own alone, and not what somebody holds: whoever does may go on from there.
void KvCache::supersede_before(LeaseState& state, Position length) {
  const OwnerId own = owner_of(state.tenant.id);
  std::erase_if(state.state_places, [&](Position place) {
    if (place >= length || std::ranges::binary_search(state.expected, place)) return false;
    each_state_at(state, place, [&](Group& group, BlockId block) {
      const StateStanding standing = group.last_use[static_cast<size_t>(block)].standing;
      if (standing == StateStanding::kShared || group.pool.owner(block) != own || group.pool.refs(block) > 0) return;
      set_standing(group, block, StateStanding::kSuperseded);
    });
    return true;
  });
}

// The places of states up to what was found, which is the last of them: it is in use again, though it may have been
// superseded before.
void KvCache::note_states(const Group& group, const std::vector<BlockId>& blocks, LeaseState& state) {
  std::vector<Position> places;
  for (size_t block_index = 0; block_index < blocks.size(); ++block_index) {
    const BlockId block = blocks[block_index];
    if (block != kNoBlock) places.push_back(static_cast<Position>(block_index + 1) * config_.block_tokens);
  }
  state.state_places = std::move(places);
  each_state_at(state, state.state_places.back(), [&](Group& its, BlockId block) {
    if (its.id == group.id && superseded(its, block)) set_standing(its, block, StateStanding::kShared);
  });
}

void KvCache::expect(KvLease& lease, std::span<const Position> places) {
  LeaseState& state = *lease.state_;
  state.expected.assign(places.begin(), places.end());
  const OwnerId own = owner_of(state.tenant.id);
  for (const Position place : places) {
    if (place <= 0 || place > lease.length()) continue;
    each_state_at(state, place, [&](Group& group, BlockId block) {
      if (group.pool.owner(block) != own) return;
      if (superseded(group, block)) set_standing(group, block, StateStanding::kNewest);
      ref_block(group, block);
      unref_block(group, block);
    });
  }
}

void KvCache::expect_another(KvLease& lease, Position place) {
  std::vector<Position>& parted = lease.state_->parted;
  const auto at = std::ranges::lower_bound(parted, place);
  if (at == parted.end() || *at != place) parted.insert(at, place);
}

// How the states at a place that rows reach were evicted, if they were there once.
std::optional<PrefixIndex::Eviction> KvCache::lost_state(const LeaseState& state, const Key256& key) const {
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Group& group = group_of(state, i);
    if (!group.config.named_state() || group.index.block_of(key)) continue;
    if (const auto how = group.index.eviction_of(key)) return how;
  }
  return std::nullopt;
}

bool KvCache::has_states_at(PolicyId policy, const Key256& key, std::span<const TokenId> block) const {
  return std::ranges::all_of(policies_[policy].groups, [&](size_t group) {
    return !groups_[group].config.named_state() || groups_[group].index.find(key, block).has_value();
  });
}

Position KvCache::found_again(const KvLease& lease) const {
  if (!has_states(lease.policy())) return lease.length();
  return std::max(lease.state_->state_from, lease.state_->passing_state);
}

}  // namespace kvasir
