// What those who watch a cache are told: events in order, and what is known of the blocks that changed.
#include <cstring>
#include <utility>

#include "kv/cache.h"

namespace kvasir {

std::string_view name_of(CacheEvent::Kind kind) {
  switch (kind) {
    case CacheEvent::Kind::kPublished:
      return "published";
    case CacheEvent::Kind::kEvicted:
      return "evicted";
    case CacheEvent::Kind::kMoved:
      return "moved";
    case CacheEvent::Kind::kTaken:
      return "taken";
    case CacheEvent::Kind::kHit:
      break;
  }
  return "hit";
}

void KvCache::note(CacheEvent event) {
  if (!listening_) return;
  if (events_.size() >= kMostEvents) {
    ++lost_events_;
    return;
  }
  event.tick = tick_;
  event.time = now_;
  events_.push_back(event);
}

void KvCache::note(CacheEvent::Kind kind, const Group& group, BlockId block, const LeaseState& state) {
  if (!listening_) return;
  note({.kind = kind,
        .group = group.id,
        .block = block,
        .owner = group.pool.owner(block),
        .tenant = state.tenant.id,
        .request = state.request});
}

// What continues this key has another block before it now, or none.
void KvCache::note_parent_changed(Group& group, const Key256& key) {
  if (!watched_) return;
  for (BlockId child = group.index.first_child(key); child != kNoBlock; child = group.index.next_sibling(child))
    group.pool.touch(child);
}

std::vector<CacheEvent> KvCache::take_events() {
  lost_events_ = 0;
  return std::exchange(events_, {});
}

void KvCache::watch() {
  listening_ = true;
  watched_ = true;
  events_ = {};
  lost_events_ = 0;
  for (Group& group : groups_) {
    group.pool.track_changes(BlockPool::Tracking::kOn);
    for (BlockId block = 0; block < group.pool.id_limit(); ++block) group.pool.touch(block);
  }
}

void KvCache::unwatch() {
  listening_ = false;
  watched_ = false;
  events_ = {};
  for (Group& group : groups_) group.pool.track_changes(BlockPool::Tracking::kOff);
}

CacheChanges KvCache::take_changes() {
  CacheChanges changes;
  changes.lost_events = lost_events_;
  changes.events = take_events();
  for (Group& group : groups_) {
    for (const BlockId block : group.pool.take_changed()) changes.blocks.push_back(info(group.id, block));
  }
  return changes;
}

BlockInfo KvCache::info(size_t group_id, BlockId block) const {
  const Group& group = groups_[group_id];
  BlockInfo out{.group = group_id, .block = block, .state = group.pool.state(block), .refs = group.pool.refs(block)};
  if (out.state == BlockPool::State::kAbsent || out.state == BlockPool::State::kFree) return out;
  out.owner = group.pool.owner(block);
  out.last_use = group.last_use[static_cast<size_t>(block)].time;
  out.published = group.index.published(block);
  if (!out.published) return out;
  const PrefixIndex::Entry& entry = group.index.entry(block);
  out.key = entry.key;
  out.parent = group.index.block_of(entry.parent).value_or(kNoBlock);
  out.block_index = entry.block_index;
  out.born = entry.born_time;
  return out;
}

std::optional<BlockInfo> KvCache::find_key(std::uint64_t beginning) const {
  for (const Group& group : groups_) {
    for (BlockId block = 0; block < group.pool.id_limit(); ++block) {
      if (group.pool.state(block) == BlockPool::State::kAbsent || !group.index.published(block)) continue;
      if (Key256Hash{}(group.index.entry(block).key) == beginning) return info(group.id, block);
    }
  }
  return std::nullopt;
}

std::span<const TokenId> KvCache::published_tokens(const BlockInfo& block) const {
  return groups_[block.group].index.tokens(block.block);
}

}  // namespace kvasir
