// KvCache::problem(): the invariants of the whole cache, recounted from the leases up.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kv/cache.h"

namespace kvasir {

std::optional<std::string> KvCache::problem() const {
  for (const LeaseState* lease : leases_) {
    const auto length = static_cast<Position>(lease->tokens.size());
    const Position named = shares(lease->policy) ? length : 0;
    if (static_cast<Position>(lease->keys.size()) != named / config_.block_tokens) {
      return fmt::format("a lease of {} tokens has {} keys", length, lease->keys.size());
    }
    if (lease->tables.size() != policies_[lease->policy].groups.size()) return "a lease has tables for other groups";
    for (size_t i = 0; i < lease->tables.size(); ++i) {
      const std::int64_t evicted = lease->evicted[i];
      if (evicted < 0 || evicted > length || (evicted > 0 && shares(lease->policy))) return "a lease lost rows";
      const Group& group = group_of(*lease, i);
      const std::int64_t blocks = table_size(*lease, group, length - evicted);
      const bool found = group.config.live_state() && lease->tables[i + 1].size() == 1;  // see go_on_from_kept()
      const bool to_come = found || (group.config.source() && !lease->source.written);
      if (lease->tables[i].size() < blocks && !to_come) return "a lease is longer than its table";
      if (group.config.source() && lease->tables[i].size() > lease->source.blocks()) return "a source is too long";
      if (group.config.state() && lease->tables[i].size() > 1) return "a lease has two states";
      if (found && lease->tables[i].size() == 1) return "a lease holds the state that it went on from";
    }
  }
  for (const Group& group : groups_) {
    if (auto wrong = problem_in(group)) return fmt::format("group {}: {}", group.id, *wrong);
  }
  return problem_with_pages();
}

std::optional<std::string> KvCache::problem_in(const Group& group) const {
  const std::int64_t size = config_.block_tokens;
  if (!group.pool.well_formed()) return "the pool's states and lists disagree";
  if (!group.index.well_formed()) return "the index's lists and keys disagree";
  std::vector<int> refs(static_cast<size_t>(group.pool.id_limit()), 0);
  for (const LeaseState* lease : leases_) {
    if (lease->policy != group.policy) continue;
    const size_t g = table_of(group);
    const auto length = static_cast<Position>(lease->tokens.size());
    for (std::int64_t block_index = 0; block_index < lease->tables[g].size(); ++block_index) {
      const BlockId block = lease->tables[g].at(block_index);
      if (block == kNoBlock) {
        if (needs_block(group.config.retention, block_index, length)) return "a needed block is a hole";
        continue;
      }
      ++refs[static_cast<size_t>(block)];
      if (!shares(lease->policy) && group.index.published(block))
        return fmt::format("private block {} is named", block);
      if (!group.index.published(block)) continue;
      if (group.config.source()) {
        if (group.index.entry(block).key == lease->source.keys[static_cast<size_t>(block_index)]) continue;
        return fmt::format("block {} is held as another source's", block);
      }
      // A state has the name of the block that ends where it is; any other block its own.
      const std::int64_t named = group.config.state() ? length / size - 1 : block_index;
      if (group.config.state() && length % size != 0)
        return fmt::format("the state in block {} is a name ahead", block);
      const bool full = (named + 1) * size <= length;
      if (full && (named < 0 || group.index.entry(block).key != lease->keys[static_cast<size_t>(named)] ||
                   group.index.entry(block).block_index != named)) {
        return fmt::format("block {} is held under another name", block);
      }
    }
  }
  for (BlockId block = 0; block < group.pool.id_limit(); ++block) {
    if (refs[static_cast<size_t>(block)] != group.pool.refs(block)) {
      return fmt::format("block {} has {} holders and {} refs", block, refs[static_cast<size_t>(block)],
                         group.pool.refs(block));
    }
    const bool published = group.index.published(block);
    const bool continued = published && group.index.has_children(group.index.entry(block).key);
    const BlockPool::State state = group.pool.state(block);
    const bool evictable = state == BlockPool::State::kEvictable;
    if (published && (state == BlockPool::State::kAbsent || state == BlockPool::State::kFree)) {
      return fmt::format("block {} is free and named", block);
    }
    if (!continued && state == BlockPool::State::kInterior) {
      return fmt::format("block {} is interior, and nothing continues it", block);
    }
    if (evictable && !published) return fmt::format("block {} is evictable and has no name", block);
    if (evictable && continued && group.chained()) return fmt::format("block {} would go before its end", block);
    if (!published) continue;
    const std::optional<BlockId> before = group.index.block_of(group.index.entry(block).parent);
    if (before && group.pool.owner(*before) != group.pool.owner(block)) {
      return fmt::format("block {} continues one of another owner", block);
    }
  }
  return std::nullopt;
}

}  // namespace kvasir
