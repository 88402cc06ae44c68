// One memory for all groups: pages, whose they are, and how one changes hands.
//
// What can be had is a count: the blocks that all groups hold and shall hold, each group's rounded up to whole pages,
// must not need more pages than there are. Then some group has a page to spare for any that lacks one. To hand it
// over, what is only cached in it is forgotten, and what somebody holds is moved to another page of its group.
//
// A group that may evict its own blocks takes a page of others all the same when all that lies in that page was let
// go longer ago: the memory follows use, whichever policy asks, and whether it is used for rows or for states. Which
// of the two is the older is asked of what is in use; then the superseded states go first. So states neither take
// pages from rows while superseded ones lie idle, nor lose all of them to rows as soon as they are superseded.
#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"
#include "kv/cache.h"

namespace kvasir {

std::vector<BlockId> KvCache::blocks_in(const Group& group, PageId page) const {
  std::vector<BlockId> blocks;
  for (std::int64_t i = 0; i < group.per_page; ++i) blocks.push_back(static_cast<BlockId>(page * group.per_page + i));
  return blocks;
}

void KvCache::add_pages(Group& group, std::span<const PageId> pages) {
  std::vector<BlockId> blocks;
  for (const PageId page : pages) {
    const std::vector<BlockId> more = blocks_in(group, page);
    blocks.insert(blocks.end(), more.begin(), more.end());
    page_at(page) = {group.id, 0, 0, 0};
  }
  group.pool.admit(blocks);
  if (shares(group.policy)) group.index.grow(group.pool.id_limit());  // of private ones there are many small groups
  group.last_use.resize(static_cast<size_t>(group.pool.id_limit()));
}

// At first the groups of the first policy have all pages, so that each has about as many blocks; those of states have
// none, and take them as they are needed.
void KvCache::assign_pages() {
  std::vector<bool> seen(pages_.size(), false);
  for (const PageId page : config_.pages.order) {
    CHECK(page >= 0 && static_cast<size_t>(page) < seen.size() && !seen[static_cast<size_t>(page)]);
    seen[static_cast<size_t>(page)] = true;
  }
  std::span<const PageId> left(config_.pages.order);
  std::int64_t bytes_left = 0;
  for (const Group& group : groups_) bytes_left += group.config.state() ? 0 : group.config.block_bytes;
  for (Group& group : groups_) {
    if (group.config.state()) continue;
    const auto share = static_cast<size_t>(std::ssize(left) * group.config.block_bytes / bytes_left);
    add_pages(group, left.first(share));
    left = left.subspan(share);
    bytes_left -= group.config.block_bytes;
  }
}

std::vector<std::int64_t> KvCache::blocks_then(PolicyId policy, std::span<const Need> needs) const {
  std::vector<std::int64_t> blocks;
  for (const Group& group : groups_) blocks.push_back(group.pool.held());
  for (size_t i = 0; i < needs.size(); ++i) blocks[policies_[policy].groups[i]] += needs[i].blocks;
  return blocks;
}

bool KvCache::kept_from(OwnerId asking, OwnerId owner) const {
  return owner != asking && !owners_->over_guarantee(owner);
}

// What of the group is only cached, and guaranteed to others. At most: what an owner has in several groups beyond its
// guarantee counts in each as if it were the one to be kept.
std::int64_t KvCache::kept_blocks(const Group& group, OwnerId asking) const {
  std::int64_t blocks = 0;
  for (OwnerId owner = 0; owner < owners_->size(); ++owner) {
    if (owner == asking) continue;
    const std::int64_t kept = (owners_->kept_for(owner) + group.pool.weight() - 1) / group.pool.weight();
    blocks += std::min(group.pool.cached(owner), kept);
  }
  return blocks;
}

// What is guaranteed to others is counted in whole pages, as a request's length is when it is accepted: whoever fits
// beside it alone (fits_alone) can always be served.
bool KvCache::pages_suffice(PolicyId policy, OwnerId asking, std::span<const Need> needs) const {
  const std::vector<std::int64_t> blocks = blocks_then(policy, needs);
  std::int64_t pages = 0;
  std::int64_t with_kept = 0;
  for (const Group& group : groups_) {
    pages += pages_for(group, blocks[group.id]);
    with_kept += pages_for(group, blocks[group.id] + kept_blocks(group, asking));
  }
  std::int64_t guaranteed = 0;
  for (OwnerId owner = 0; owner < owners_->size(); ++owner) {
    if (owner != asking) guaranteed += owners_->of(owner).limits.guaranteed;
  }
  return pages + std::min(with_kept - pages, guaranteed / config_.pages.bytes) <= std::ssize(pages_);
}

std::int64_t KvCache::held_page_bytes() const {
  std::int64_t pages = 0;
  for (const Group& group : groups_) pages += pages_for(group, group.pool.held());
  return pages * config_.pages.bytes;
}

// A tenant that has the most it may have gives up what it has cached, the oldest first, in whatever group it is.
void KvCache::evict_over_quota(const LeaseState& state, std::span<const Need> needs, PrefixIndex::Eviction why) {
  const OwnerId owner = owner_of(state.tenant.id);
  const std::int64_t bytes = own_bytes(state.policy, needs);
  why.over_quota = true;
  while (bytes > 0 && owners_->of(owner).has > owners_->of(owner).limits.most - bytes) {
    Group* oldest = nullptr;
    std::uint64_t tick = std::numeric_limits<std::uint64_t>::max();
    for (Group& group : groups_) {
      const std::optional<BlockId> next = group.pool.next_of(owner);
      if (!next || age_of_next(group, *next) >= tick) continue;
      oldest = &group;
      tick = age_of_next(group, *next);
    }
    CHECK(oldest != nullptr);  // the caller counted
    evict(*oldest, *oldest->pool.next_of(owner), why);
  }
}

// Enough blocks for every group of the lease, free or evictable, before any is taken.
void KvCache::ensure_blocks(const LeaseState& state, std::span<const Need> needs, const PrefixIndex::Eviction& why) {
  if (groups_.size() == 1) return;
  const OwnerId asking = owner_of(state.tenant.id);
  for (size_t i = 0; i < needs.size(); ++i) {
    Group& group = group_of(state, i);
    while (group.pool.free_blocks() < needs[i].blocks) {
      const IdlePages idle = idle_pages(state, group, needs);
      const std::optional<BlockId> own = group.pool.next_to_go(asking);
      if (!idle.oldest) break;
      const Page& page = page_at(*idle.oldest);
      const bool may_go = own && !kept_from(asking, group.pool.owner(*own));
      const bool goes_first = may_go && (superseded(group, *own) || age_of_next(group, *own) <= page.newest);
      if (goes_first && page.filled > 0) break;
      reassign_page(page.filled > 0 ? idle.superseded.value_or(*idle.oldest) : *idle.oldest, group, why);
    }
  }
  for (size_t i = 0; i < needs.size(); ++i) {
    Group& group = group_of(state, i);
    const auto lacks = [&] { return group.pool.available() - kept_blocks(group, asking) < needs[i].blocks; };
    while (lacks()) {
      std::optional<PageId> page = donor_page(state, needs, Kept::kStay);
      if (!page && group.pool.available() < needs[i].blocks) page = donor_page(state, needs, Kept::kGo);
      if (!page) break;
      reassign_page(*page, group, why);
    }
    CHECK(group.pool.available() >= needs[i].blocks);  // the caller counted
  }
}

// Whether something in it is guaranteed to another owner.
bool KvCache::guaranteed(PageId page, OwnerId asking) const {
  const Group& group = groups_[page_at(page).group];
  const std::vector<BlockId> blocks = blocks_in(group, page);
  return std::ranges::any_of(blocks, [&](BlockId block) {
    return group.pool.state(block) != BlockPool::State::kFree && kept_from(asking, group.pool.owner(block));
  });
}

// Of another policy's pages in which nothing is held or guaranteed to others, an empty one, or else the one let go
// first; or of the policy's own that states have where rows are wanted, or rows where states are, if they can do
// without. Where nothing but superseded states lies in any of them, one of those.
KvCache::IdlePages KvCache::idle_pages(const LeaseState& state, const Group& to, std::span<const Need> needs) const {
  IdlePages idle;
  const std::vector<std::int64_t> spare = spare_pages(state, needs, Kept::kGo);
  const auto stays = [&](size_t from) {
    if (groups_[from].policy != state.policy) return false;
    return groups_[from].config.keeps == to.config.keeps || spare[from] <= 0;
  };
  const auto rank = [this](PageId id) {
    const Page& page = page_at(id);
    return std::tuple(page.filled > 0, page.newest);
  };
  for (PageId id = 0; id < std::ssize(pages_); ++id) {
    const Page& page = page_at(id);
    if (page.held > 0 || stays(page.group)) continue;
    std::optional<PageId>& best = all_superseded(id) ? idle.superseded : idle.oldest;
    if (best && rank(id) >= rank(*best)) continue;
    if (page.filled == 0 || !guaranteed(id, owner_of(state.tenant.id))) best = id;
  }
  if (!idle.oldest) idle.oldest = idle.superseded;
  return idle;
}

bool KvCache::all_superseded(PageId id) const {
  const Page& page = page_at(id);
  const Group& group = groups_[page.group];
  if (!group.config.named_state() || page.filled == 0) return false;
  for (std::int64_t i = 0; i < group.per_page; ++i) {
    const auto block = static_cast<BlockId>(id * group.per_page + i);
    if (group.pool.state(block) != BlockPool::State::kFree && !superseded(group, block)) return false;
  }
  return true;
}

// When what the group gives up next was last of use; where that is a superseded state, the oldest that is none.
std::uint64_t KvCache::age_of_next(const Group& group, BlockId next) const {
  const auto tick = [&group](BlockId block) { return group.last_use[static_cast<size_t>(block)].tick; };
  if (!superseded(group, next)) return tick(next);
  std::optional<std::uint64_t> oldest;
  for (BlockId block = 0; block < group.pool.id_limit(); ++block) {
    if (group.pool.state(block) != BlockPool::State::kEvictable || superseded(group, block)) continue;
    if (group.pool.owner(block) != group.pool.owner(next)) continue;
    if (!oldest || tick(block) < *oldest) oldest = tick(block);
  }
  return oldest.value_or(tick(next));
}

// By group: pages that it can do without.
std::vector<std::int64_t> KvCache::spare_pages(const LeaseState& state, std::span<const Need> needs,
                                               Kept kept) const {
  const std::vector<std::int64_t> blocks = blocks_then(state.policy, needs);
  std::vector<std::int64_t> spare(groups_.size());
  for (const Page& page : pages_) ++spare[page.group];
  for (const Group& group : groups_) {
    const std::int64_t stay = kept == Kept::kStay ? kept_blocks(group, owner_of(state.tenant.id)) : 0;
    spare[group.id] -= pages_for(group, blocks[group.id] + stay);
  }
  return spare;
}

// The page whose loss costs least, of a group that can do without one; nothing where there is none that can without
// what is guaranteed to others.
std::optional<PageId> KvCache::donor_page(const LeaseState& state, std::span<const Need> needs, Kept kept) const {
  const OwnerId asking = owner_of(state.tenant.id);
  const std::vector<std::int64_t> spare = spare_pages(state, needs, kept);
  std::optional<PageId> best;
  const auto rank = [&](PageId id) {
    const Page& page = page_at(id);
    return std::tuple(page.held, page.filled > 0 && guaranteed(id, asking), page.filled > 0, page.newest);
  };
  for (PageId id = 0; id < std::ssize(pages_); ++id) {
    if (spare[page_at(id).group] <= 0) continue;
    if (!best || rank(id) < rank(*best)) best = id;
  }
  CHECK(best.has_value() || kept == Kept::kStay);  // the caller counted
  return best;
}

void KvCache::reassign_page(PageId id, Group& to, const PrefixIndex::Eviction& why) {
  Group& from = groups_[page_at(id).group];
  expel_free(from, id);
  clear_cached(from, id, why);
  for (const BlockId block : blocks_in(from, id)) {
    if (from.pool.refs(block) > 0) move_block(from, block, why);
  }
  ++stats_.moved_pages;
  add_pages(to, {&id, 1});
}

void KvCache::expel_free(Group& from, PageId page) {
  std::vector<BlockId> free;
  for (const BlockId block : blocks_in(from, page)) {
    if (from.pool.state(block) == BlockPool::State::kFree) free.push_back(block);
  }
  from.pool.expel(free);
}

// What is only cached in a page that is on its way to another group: a tenant with a guarantee keeps it elsewhere, as
// long as there is room that nobody is guaranteed; all else is forgotten.
void KvCache::clear_cached(Group& from, PageId page, const PrefixIndex::Eviction& why) {
  const OwnerId asking = owner_of(why.tenant);
  for (const BlockId block : blocks_in(from, page)) {
    const auto cached = [&] {
      const BlockPool::State state = from.pool.state(block);
      return state == BlockPool::State::kInterior || state == BlockPool::State::kEvictable;
    };
    if (!cached()) continue;
    const OwnerId owner = from.pool.owner(block);
    const bool keeps = owner != asking && owners_->of(owner).limits.guaranteed > 0;
    const bool moves = keeps && make_free_outside(from, page, why);
    if (!cached()) continue;  // it was itself the next to go
    moves ? move_cached(from, block) : evict_subtree(from, block, why);
    expel_free(from, page);
  }
}

// A free block for the group in one of its other pages. False: only what others are guaranteed could make way.
bool KvCache::make_free_outside(Group& from, PageId page, const PrefixIndex::Eviction& why) {
  while (from.pool.free_blocks() == 0) {
    const std::optional<BlockId> victim = from.pool.next_to_go(owner_of(why.tenant));
    if (!victim || kept_from(owner_of(why.tenant), from.pool.owner(*victim))) return false;
    evict(from, *victim, why);
    expel_free(from, page);
  }
  return true;
}

// A block and, where a chain is of no use without its start, all that continues it. Nobody holds any of them.
void KvCache::evict_subtree(Group& group, BlockId block, const PrefixIndex::Eviction& why) {
  std::vector<BlockId> path{block};
  while (!path.empty()) {
    const BlockId last = path.back();
    const BlockId child = group.chained() ? group.index.first_child(group.index.entry(last).key) : kNoBlock;
    if (child != kNoBlock) {
      path.push_back(child);
      continue;
    }
    path.pop_back();
    evict(group, last, why);
  }
}

// To another page of the group, out of one whose free blocks are gone already; its own is then gone too.
void KvCache::move_block(Group& group, BlockId from, const PrefixIndex::Eviction& why) {
  if (group.pool.free_blocks() == 0) {
    const std::optional<BlockId> victim = group.pool.next_to_go(0);
    CHECK(victim.has_value());  // the group can spare the page
    evict(group, *victim, why);
  }
  const BlockId to = move_to_free(group, from);
  ++page_of(group, to).held;
  const size_t i = table_of(group);
  for (LeaseState* lease : leases_) {
    if (lease->policy != group.policy) continue;
    for (std::int64_t block_index = 0; block_index < lease->tables[i].size(); ++block_index) {
      if (lease->tables[i].at(block_index) == from) lease->tables[i].replace(block_index, to);
    }
  }
}

// The same for what nobody holds; it keeps its age. REQUIRES: a block of another page is free.
void KvCache::move_cached(Group& group, BlockId from) {
  group.pool.ref(from);
  const BlockId to = move_to_free(group, from);
  Page& page = page_of(group, to);
  page.newest = std::max(page.newest, group.last_use[static_cast<size_t>(to)].tick);
  (void)group.pool.unref(to);
  retire(group, to);
}

// A free block of the group becomes all that the held one is, which is then absent. Returns it.
BlockId KvCache::move_to_free(Group& group, BlockId held) {
  const BlockId to = group.pool.next_free();
  group.pool.move(held, to);
  group.pool.expel({&held, 1});
  if (group.index.published(held)) {
    group.index.move(held, to);
    note_parent_changed(group, group.index.entry(to).key);
  }
  group.last_use[static_cast<size_t>(to)] = group.last_use[static_cast<size_t>(held)];
  ++page_of(group, to).filled;
  copies_.push_back({group.id, held, group.id, to});
  ++stats_.moved_blocks;
  note({.kind = CacheEvent::Kind::kMoved, .group = group.id, .block = held, .to = to, .owner = group.pool.owner(to)});
  return to;
}

std::optional<std::string> KvCache::problem_with_pages() const {
  std::vector<std::int64_t> blocks(groups_.size(), 0);
  for (PageId id = 0; id < std::ssize(pages_); ++id) {
    const Group& group = groups_[page_at(id).group];
    Page counted;
    for (const BlockId block : blocks_in(group, id)) {
      if (group.pool.state(block) == BlockPool::State::kAbsent) return "a page lacks a block";
      counted.held += group.pool.refs(block) > 0;
      counted.filled += group.pool.state(block) != BlockPool::State::kFree;
      ++blocks[group.id];
    }
    if (counted.held != page_at(id).held || counted.filled != page_at(id).filled) return "a page is miscounted";
  }
  std::vector<Owners::Book> books(owners_->size());
  for (const Group& group : groups_) {
    if (blocks[group.id] != group.pool.size()) return "a group has blocks in pages of another";
    for (BlockId block = 0; block < group.pool.id_limit(); ++block) {
      const BlockPool::State state = group.pool.state(block);
      if (state == BlockPool::State::kFree || state == BlockPool::State::kAbsent) continue;
      Owners::Book& book = books[group.pool.owner(block)];
      book.has += group.config.block_bytes;
      if (state == BlockPool::State::kHeld) book.held += group.config.block_bytes;
    }
  }
  for (OwnerId owner = 0; owner < owners_->size(); ++owner) {
    if (books[owner].has != owners_->of(owner).has || books[owner].held != owners_->of(owner).held) {
      return "the ledger of owners is wrong";
    }
  }
  return std::nullopt;
}

}  // namespace kvasir
