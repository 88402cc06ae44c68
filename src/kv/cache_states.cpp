// The states of recurrent layers in the cache: KvCache of groups that keep states.
//
// A lease has one state, where its text ends, and every step writes it. Kept states have the name of the block of
// rows that ends where they are, so that they are found by the same keys. To keep one is to give it that name: before
// the next step writes, the lease takes a copy for itself, as of an open block that others hold, and where there is
// no room for a copy the name is lost. So states lie at ends of blocks alone, and what is kept is never written.
//
// No state stands for another: each may be evicted by itself, as blocks behind a window may.
#include <algorithm>

#include "base/check.h"
#include "kv/cache.h"

namespace kvasir {

void KvCache::keep_state(KvLease& lease, Stay stay) {
  CHECK(lease.valid() && lease.cache_ == this);
  LeaseState& state = *lease.state_;
  const Position length = lease.length();
  if (!has_states(state.policy) || !reuses() || length == 0 || length % config_.block_tokens != 0) return;
  const std::int64_t last = length / config_.block_tokens - 1;
  if (last < state.public_blocks && state.tenant.id != kSystemTenant) return;
  ++tick_;
  forget_passing_state(state);
  const Key256& key = state.keys.back();
  const bool known = has_states_at(state.policy, key, tokens_of_block(state.tokens, last));
  const PrefixIndex::Entry entry{key,  parent_of(state, state.keys, last), last, tick_,
                                 now_, length - state.state_from};
  for (size_t i = 0; i < state.tables.size(); ++i) {
    if (group_of(state, i).config.state()) publish_block(state, i, 0, entry);
  }
  if (stay == Stay::kUntilEvicted) {
    state.state_from = length;
  } else if (!known) {  // what somebody else keeps is not ours to forget
    state.passing_state = length;
  }
}

void KvCache::forget_passing_state(LeaseState& state) {
  if (state.passing_state == 0) return;
  const Key256& key = state.keys[static_cast<size_t>(state.passing_state / config_.block_tokens - 1)];
  for (size_t i = 0; i < state.tables.size(); ++i) {
    Group& group = group_of(state, i);
    if (!group.config.state()) continue;
    const std::optional<BlockId> block = group.index.block_of(key);
    if (!block || group.pool.state(*block) != BlockPool::State::kEvictable) continue;
    evict(group, *block, {tick_, now_, state.tenant.id, state.request, false});
  }
  state.passing_state = 0;
}

bool KvCache::has_states_at(PolicyId policy, const Key256& key, std::span<const TokenId> block) const {
  return std::ranges::all_of(policies_[policy].groups, [&](size_t group) {
    return !groups_[group].config.state() || groups_[group].index.find(key, block).has_value();
  });
}

Position KvCache::found_again(const KvLease& lease) const {
  if (!has_states(lease.policy())) return lease.length();
  return std::max(lease.state_->state_from, lease.state_->passing_state);
}

}  // namespace kvasir
