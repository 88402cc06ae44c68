// KvCache::open(): what a prompt finds in the cache, and why no more.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "kv/cache.h"

namespace kvasir {

KvCache::Opened KvCache::open(std::span<const TokenId> tokens, const OpenContext& context) {
  CHECK(!tokens.empty());
  ++tick_;
  auto state = std::make_unique<LeaseState>(blank(tokens, context));
  const Found found = find(tokens, *state);
  pin(found, tokens, *state);
  pin_source(*state);

  ReuseReport report;
  report.prompt_tokens = static_cast<std::int64_t>(tokens.size());
  report.reused_tokens = static_cast<std::int64_t>(state->tokens.size());
  report.stopped_at = report.reused_tokens;
  report.stop = found.stop;
  report.cached_token = found.cached_token;
  if (report.stop == ReuseStop::kStateBefore) {
    report.rows_upto = found.whole_row_blocks * config_.block_tokens;
    state->parted.push_back(report.rows_upto);
    if (found.lost_state)
      report.state_loss = found.lost_state->superseded ? StateLoss::kSuperseded : StateLoss::kEvicted;
    if (found.lost_state) report_eviction(*found.lost_state, context.tenant.id, report);
  }
  report.public_tokens = std::min(report.reused_tokens, state->public_blocks * config_.block_tokens);
  if (report.stop == ReuseStop::kEvicted) report_eviction(found.eviction, context.tenant.id, report);
  if (!context.source.empty()) report_source(*state, report);
  leases_.push_back(state.get());
  return {KvLease(this, std::move(state)), report};
}

// Of other tenants nothing is told but that the pool is shared.
void KvCache::report_eviction(const PrefixIndex::Eviction& how, std::uint32_t asking, ReuseReport& report) const {
  report.evicted_tick = how.tick;
  report.evicted_seconds_ago = now_ - how.time;
  if (how.tenant != asking) return;
  report.evicted_for = how.over_quota ? EvictedFor::kOwnQuota : EvictedFor::kOwnRequest;
  report.evicted_by = how.request;
}

void KvCache::count_query(const KvLease& lease, const ReuseReport& report) {
  const auto add = [&report](auto& stats) {
    stats.queried_tokens += report.prompt_tokens + report.source_tokens;
    stats.hit_tokens += report.reused_tokens + report.source_reused;
  };
  add(stats_);
  add(policies_[lease.policy()].stats);
  add(tenants_[lease.tenant().id]);
}

LeaseState KvCache::blank(std::span<const TokenId> tokens, const OpenContext& context) const {
  LeaseState state;
  state.tenant = context.tenant;
  state.policy = context.policy;
  state.request = context.request;
  state.after = context.after;
  if (!context.source.empty()) name_source(context.source, state);
  if (shares(state.policy)) set_root_key(tokens, state);
  state.evicted.resize(policies_[state.policy].groups.size());
  state.tables.resize(policies_[state.policy].groups.size());
  state.dropped_upto.resize(policies_[state.policy].groups.size());
  return state;
}

Position KvCache::reusable(std::span<const TokenId> tokens, const OpenContext& context) const {
  const Found found = find(tokens, blank(tokens, context));
  return found.whole_blocks * config_.block_tokens + found.tail;
}

std::vector<Key256> KvCache::block_keys(std::span<const TokenId> tokens, const OpenContext& context) const {
  std::vector<Key256> keys;
  if (!reuses() || !shares(context.policy)) return keys;
  const LeaseState state = blank(tokens, context);
  const auto count = (static_cast<std::int64_t>(tokens.size()) - 1) / config_.block_tokens;
  for (std::int64_t block_index = 0; block_index < count; ++block_index) {
    keys.push_back(
        key_of(state, parent_of(state, keys, block_index), block_index, tokens_of_block(tokens, block_index)));
  }
  return keys;
}

std::int64_t KvCache::held_prefix(std::span<const TokenId> tokens, std::span<const Key256> keys,
                                  PolicyId policy) const {
  const Group& group = groups_[policies_[policy].full_attention_group];
  std::int64_t block_index = 0;
  for (; block_index < std::ssize(keys); ++block_index) {
    const std::optional<BlockId> block =
        group.index.find(keys[static_cast<size_t>(block_index)], tokens_of_block(tokens, block_index));
    if (!block || group.pool.refs(*block) == 0) break;
  }
  const auto has_states_before = [&](std::int64_t end) {
    return has_states_at(policy, keys[static_cast<size_t>(end) - 1], tokens_of_block(tokens, end - 1));
  };
  while (block_index > 0 && !has_states_before(block_index)) --block_index;
  return block_index;
}

KvCache::Found KvCache::find(std::span<const TokenId> tokens, const LeaseState& state) const {
  Found found;
  found.blocks.resize(state.tables.size());
  if (!reuses() || !shares(state.policy)) {
    found.stop = reuses() ? ReuseStop::kPrivate : ReuseStop::kOff;
    return found;
  }
  find_blocks(tokens, state, found);
  find_tail(tokens, state, found);
  explain_stop(tokens, state, found);
  return found;
}

// Whole blocks. A group that keeps everything needs an unbroken run from the start, so the search ends at its first
// miss; a group with a window only needs what its window (and its sinks) still sees from the next position on, and
// one of states the one there.
void KvCache::find_blocks(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const {
  const auto limit = (static_cast<std::int64_t>(tokens.size()) - 1) / config_.block_tokens;
  for (std::int64_t block_index = 0; block_index < limit; ++block_index) {
    const std::span<const TokenId> wanted = tokens_of_block(tokens, block_index);
    const Key256 key = key_of(state, parent_of(state, found.keys, block_index), block_index, wanted);
    bool run_ends = false;
    for (size_t i = 0; i < state.tables.size(); ++i) {
      const Group& group = group_of(state, i);
      if (group.config.source() || group.config.live_state()) continue;
      const BlockId block = group.index.find(key, wanted).value_or(kNoBlock);
      found.blocks[i].push_back(block);
      run_ends |= block == kNoBlock && group.chained();
    }
    if (run_ends) break;
    found.keys.push_back(key);
  }
  const auto longest = std::ssize(found.keys);
  found.whole_blocks = found.whole_row_blocks = most_that_serve(state, found, longest, Serving::kRows);
  // Something is cached further on, and a window is why it is of no use. Nothing is: it is not the window's fault.
  for (size_t i = 0; i < state.tables.size(); ++i) {
    if (!group_of(state, i).config.rows()) continue;
    const bool further_on = std::any_of(found.blocks[i].begin() + found.whole_row_blocks,
                                        found.blocks[i].begin() + longest, [](BlockId b) { return b != kNoBlock; });
    if (further_on) found.stop = ReuseStop::kWindowDropped;
  }
  if (has_states(state.policy)) {
    found.whole_blocks = most_that_serve(state, found, found.whole_row_blocks, Serving::kAll);
    if (found.whole_blocks < found.whole_row_blocks) {
      found.stop = ReuseStop::kStateBefore;
      found.lost_state = lost_state(state, found.keys[static_cast<size_t>(found.whole_row_blocks) - 1]);
    }
  }
  found.keys.resize(static_cast<size_t>(found.whole_blocks));
  for (std::vector<BlockId>& blocks : found.blocks) blocks.resize(static_cast<size_t>(found.whole_blocks));
}

std::int64_t KvCache::most_that_serve(const LeaseState& state, const Found& found, std::int64_t most,
                                      Serving who) const {
  const auto all_serve = [&](std::int64_t whole) {
    for (size_t i = 0; i < state.tables.size(); ++i) {
      const Group& group = group_of(state, i);
      if (group.config.source() || group.config.live_state()) continue;
      if (group.config.named_state() && who == Serving::kRows) continue;
      if (!serves(group, found.blocks[i], whole)) return false;
    }
    return true;
  };
  while (most > 0 && !all_serve(most)) --most;
  return most;
}

// Whether the group has what so many blocks of the run need.
bool KvCache::serves(const Group& group, const std::vector<BlockId>& blocks, std::int64_t whole) const {
  if (group.chained()) return true;  // its first miss ended the run
  if (group.config.named_state()) return blocks[static_cast<size_t>(whole) - 1] != kNoBlock;
  const std::int64_t size = config_.block_tokens;
  for (std::int64_t block_index = whole - 1; block_index >= 0; --block_index) {
    const bool needed = needs_block(group.config.retention, block_index, whole * size);
    if (needed && blocks[static_cast<size_t>(block_index)] == kNoBlock) return false;
    // Before the window only the sinks are left: jump to them.
    if (!needed && block_index * size >= group.config.retention.sinks) {
      block_index = std::min(block_index, (group.config.retention.sinks + size - 1) / size);
    }
  }
  return true;
}

// The block that continues the whole ones may be cached with another ending: what it has in common is reused too, and
// copied before anything is written behind it. But not where there are states: those are at ends of blocks alone.
void KvCache::find_tail(std::span<const TokenId> tokens, const LeaseState& state, Found& found) const {
  if (found.stop == ReuseStop::kWindowDropped || has_states(state.policy)) return;
  const auto first = static_cast<size_t>(found.whole_blocks * config_.block_tokens);
  const size_t most = std::min(tokens.size() - 1 - first, static_cast<size_t>(config_.block_tokens));
  const Key256 parent = parent_of(state, found.keys, found.whole_blocks);
  const auto agreed = full_attention_group_of(state).index.longest_agreement(parent, tokens.subspan(first, most));
  if (agreed.tokens == 0) return;
  const Key256& key = full_attention_group_of(state).index.entry(agreed.block).key;
  std::vector<BlockId> blocks;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Group& group = group_of(state, i);
    if (group.config.source()) {
      blocks.push_back(kNoBlock);
      continue;
    }
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
  const std::int64_t reused = found.whole_blocks * config_.block_tokens + found.tail;
  const std::int64_t left = static_cast<std::int64_t>(tokens.size()) - reused;
  if (left == 1) {
    found.stop = ReuseStop::kWholePrompt;
    return;
  }
  if (found.stop != ReuseStop::kNeverSeen) return;  // known already
  const Key256 parent = parent_of(state, found.keys, found.whole_blocks);
  if (left + found.tail >= config_.block_tokens) {
    const Key256 next = key_of(state, parent, found.whole_blocks, tokens_of_block(tokens, found.whole_blocks));
    for (size_t i = 0; i < state.tables.size(); ++i) {
      const Group& group = group_of(state, i);
      const auto how = group.index.eviction_of(next);
      if (!how || !group.config.rows()) continue;
      found.stop = ReuseStop::kEvicted;
      found.eviction = *how;
      return;
    }
  }
  if (full_attention_group_of(state).index.has_children(parent)) {
    found.stop = ReuseStop::kDiverged;
    const auto first = static_cast<size_t>(found.whole_blocks * config_.block_tokens);
    const size_t most = std::min(tokens.size() - first, static_cast<size_t>(config_.block_tokens));
    const auto nearest = full_attention_group_of(state).index.longest_agreement(parent, tokens.subspan(first, most));
    if (has_states(state.policy) && nearest.tokens >= left - 1) {
      found.stop = ReuseStop::kShortTail;  // it does not differ: it has no state inside a block
    } else if (nearest.block != kNoBlock && nearest.tokens < config_.block_tokens) {
      found.cached_token =
          full_attention_group_of(state).index.tokens(nearest.block)[static_cast<size_t>(nearest.tokens)];
    }
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
    const LeaseState other = blank(tokens, {state.tenant, 0, policy, state.after});
    const Key256 key = key_of(other, other.root, 0, tokens_of_block(tokens, 0));
    if (full_attention_group_of(other).index.find(key, tokens_of_block(tokens, 0))) return true;
  }
  return false;
}

void KvCache::pin(const Found& found, std::span<const TokenId> tokens, LeaseState& state) {
  const std::int64_t size = config_.block_tokens;
  const Position length = found.whole_blocks * size + found.tail;
  state.keys = found.keys;
  state.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length));
  if (has_states(state.policy)) state.state_from = length;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    Group& group = group_of(state, i);
    if (group.config.source() || group.config.live_state()) continue;  // see pin_source() and reserve()
    if (group.config.named_state()) {
      if (length == 0) continue;
      note_states(group, found.blocks[i], state);
      ref_block(group, found.blocks[i].back());
      note(CacheEvent::Kind::kHit, group, found.blocks[i].back(), state);
      state.tables[i].append(found.blocks[i].back());
      continue;
    }
    for (std::int64_t block_index = 0; block_index < static_cast<std::int64_t>(found.blocks[i].size());
         ++block_index) {
      const bool needed = needs_block(group.config.retention, block_index, length);
      const BlockId block = needed ? found.blocks[i][static_cast<size_t>(block_index)] : kNoBlock;
      if (needed) {
        ref_block(group, block);
        note(CacheEvent::Kind::kHit, group, block, state);
      }
      state.tables[i].append(block);
    }
  }
}

}  // namespace kvasir
