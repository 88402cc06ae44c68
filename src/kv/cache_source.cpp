// The source of a text in the cache: KvCache of groups that keep it.
//
// What an encoder-decoder answers to is read whole, whichever token is computed next: its rows are written once, by
// whoever asks first, and never grow. So a lease has all its blocks or none, and they are found together or not at
// all. Their names are a chain from a root that all of the source is part of, and so are those of the text's blocks
// (OpenContext::after): no row of either means anything behind another source. What is evicted of a source goes from
// its end, as of any chain, and costs all of it.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "kv/cache.h"

namespace kvasir {
namespace {

std::string_view bytes_of(std::span<const TokenId> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

std::string_view bytes_of(const Key256& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

}  // namespace

// `state.after` becomes a key of both: of what stood there before, and of the source.
void KvCache::name_source(std::span<const TokenId> source, LeaseState& state) const {
  constexpr TokenId kNoToken = -1;
  state.source.length = std::ssize(source);
  state.source.block_tokens = config_.block_tokens;
  state.source.tokens.assign(source.begin(), source.end());
  state.source.tokens.resize(
      static_cast<size_t>(blocks_for(state.source.length, config_.block_tokens) * config_.block_tokens), kNoToken);
  const std::array<std::string_view, 3> parts{"kvasir source", state.after ? bytes_of(*state.after) : "",
                                              bytes_of(source)};
  state.after = keyed_hash(state.tenant.secret, parts);
  if (!shares(state.policy)) return;
  Key256 parent = source_root(state);
  for (std::int64_t block_index = 0; block_index < state.source.blocks(); ++block_index) {
    parent = chain_hash(state.tenant.secret, parent, tokens_of_block(state.source.tokens, block_index));
    state.source.keys.push_back(parent);
  }
}

Key256 KvCache::source_root(const LeaseState& state) const {
  const Key256 root = private_root(state);
  const std::array<std::string_view, 2> parts{"kvasir source root", bytes_of(root)};
  return keyed_hash(state.tenant.secret, parts);
}

std::optional<BlockId> KvCache::source_block(const LeaseState& state, const Group& group,
                                             std::int64_t block_index) const {
  return group.index.find(state.source.keys[static_cast<size_t>(block_index)],
                          tokens_of_block(state.source.tokens, block_index));
}

bool KvCache::holds_source(const OpenContext& context) const {
  if (!reuses() || !shares(context.policy)) return false;
  const LeaseState state = blank(context.source, context);
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Group& group = group_of(state, i);
    for (std::int64_t b = 0; group.config.source() && b < state.source.blocks(); ++b) {
      const std::optional<BlockId> block = source_block(state, group, b);
      if (!block || group.pool.refs(*block) == 0) return false;
    }
  }
  return true;
}

void KvCache::pin_source(LeaseState& state) {
  if (state.source.length == 0 || !reuses() || !shares(state.policy)) return;
  std::vector<std::vector<BlockId>> found(state.tables.size());
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Group& group = group_of(state, i);
    for (std::int64_t b = 0; group.config.source() && b < state.source.blocks(); ++b) {
      const std::optional<BlockId> block = source_block(state, group, b);
      if (!block) return;
      found[i].push_back(*block);
    }
  }
  for (size_t i = 0; i < state.tables.size(); ++i) {
    for (const BlockId block : found[i]) {
      ref_block(group_of(state, i), block);
      state.tables[i].append(block);
    }
  }
  state.source.written = true;
}

void KvCache::report_source(const LeaseState& state, ReuseReport& report) const {
  report.source_tokens = state.source.length;
  if (state.source.written) {
    report.source_reused = state.source.length;
    report.source_stop = ReuseStop::kWholePrompt;
    return;
  }
  report.source_stop = reuses() ? ReuseStop::kPrivate : ReuseStop::kOff;
  if (!reuses() || !shares(state.policy)) return;
  report.source_stop = ReuseStop::kNeverSeen;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    const Group& group = group_of(state, i);
    for (std::int64_t b = 0; group.config.source() && b < state.source.blocks(); ++b) {
      const auto how = group.index.eviction_of(state.source.keys[static_cast<size_t>(b)]);
      if (!how || source_block(state, group, b)) continue;
      report.source_stop = ReuseStop::kEvicted;
      return report_eviction(*how, state.tenant.id, report);
    }
  }
}

void KvCache::commit_source(KvLease& lease) {
  CHECK(lease.valid() && lease.cache_ == this);
  LeaseState& state = *lease.state_;
  if (!lease.lacks_source()) return;
  ++tick_;
  state.source.written = true;
  for (size_t i = 0; i < state.tables.size(); ++i) {
    CHECK(!group_of(state, i).config.source() || state.tables[i].size() == state.source.blocks());
  }
  if (!reuses() || !shares(state.policy)) return;
  Key256 parent = source_root(state);
  for (std::int64_t b = 0; b < state.source.blocks(); ++b) {
    const Key256& key = state.source.keys[static_cast<size_t>(b)];
    for (size_t i = 0; i < state.tables.size(); ++i) {
      if (!group_of(state, i).config.source()) continue;
      publish_block(state, i, b, {key, parent, b, tick_, now_, config_.block_tokens});
    }
    parent = key;
  }
}

}  // namespace kvasir
