#include "kv/block_pool.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace kvasir {

BlockPool::BlockPool(std::vector<BlockId> free_order, std::unique_ptr<EvictionPolicy> policy)
    : policy_(std::move(policy)),
      refs_(free_order.size(), 0),
      states_(free_order.size(), State::kFree),
      owner_(free_order.size(), 0),
      free_(free_order.rbegin(), free_order.rend()),
      evictable_(static_cast<std::int32_t>(free_order.size())) {
  std::vector<bool> seen(free_.size(), false);
  for (const BlockId block : free_) {
    CHECK(block >= 0 && index(block) < seen.size() && !seen[index(block)]);
    seen[index(block)] = true;
  }
}

BlockPool::Book& BlockPool::book(OwnerId owner) {
  if (owner >= owners_.size()) owners_.resize(owner + 1);
  return owners_[owner];
}

std::int64_t BlockPool::available(OwnerId owner) const {
  const std::int64_t held = owner < owners_.size() ? owners_[owner].held : 0;
  return std::clamp<std::int64_t>(limits(owner).most - held, 0, available());
}

void BlockPool::count_held(BlockId block, std::int64_t by) {
  held_ += by;
  book(owner(block)).held += by;
}

// The owner whose next evictable block goes. A linear walk over owners: they are tenants, and few.
std::optional<OwnerId> BlockPool::whose_goes_next(OwnerId asking) {
  if (owned(asking) >= limits(asking).most) {
    if (evictable_.empty(asking)) return std::nullopt;
    return asking;
  }
  std::optional<OwnerId> best;
  const auto rank = [this](OwnerId owner) {
    const BlockId block = evictable_.top(owner);
    return std::tuple(!over_guarantee(owner), evictable_.priority(block), block);
  };
  for (OwnerId owner = 0; owner < evictable_.heaps(); ++owner) {
    if (evictable_.empty(owner)) continue;
    if (!best || rank(owner) < rank(*best)) best = owner;
  }
  return best;
}

std::optional<BlockPool::Taken> BlockPool::take(OwnerId owner) {
  Taken taken;
  if (!free_.empty() && owned(owner) < limits(owner).most) {
    taken.block = free_.back();
    free_.pop_back();
  } else if (const std::optional<OwnerId> from = whose_goes_next(owner)) {
    taken = {evictable_.top(*from), State::kEvictable, *from};
    policy_->evicted(evictable_.priority(taken.block));
    evictable_.remove(taken.block);
    --book(*from).has;
  } else {
    return std::nullopt;
  }
  CHECK(refs(taken.block) == 0);
  states_[index(taken.block)] = State::kHeld;
  refs_[index(taken.block)] = 1;
  owner_[index(taken.block)] = owner;
  ++book(owner).has;
  count_held(taken.block, 1);
  return taken;
}

void BlockPool::ref(BlockId block) {
  CHECK(state(block) != State::kFree);
  if (state(block) == State::kEvictable) evictable_.remove(block);
  if (state(block) != State::kHeld) count_held(block, 1);
  states_[index(block)] = State::kHeld;
  ++refs_[index(block)];
}

int BlockPool::unref(BlockId block) {
  CHECK(state(block) == State::kHeld && refs(block) > 0);
  return --refs_[index(block)];
}

void BlockPool::make_free(BlockId block) {
  CHECK(state(block) == State::kHeld && refs(block) == 0);
  states_[index(block)] = State::kFree;
  free_.push_back(block);
  count_held(block, -1);
  --book(owner(block)).has;
}

void BlockPool::make_covered(BlockId block) {
  CHECK(state(block) == State::kHeld && refs(block) == 0);
  states_[index(block)] = State::kCovered;
  count_held(block, -1);
}

void BlockPool::make_evictable(BlockId block, const BlockUse& use) {
  CHECK(refs(block) == 0 && (state(block) == State::kHeld || state(block) == State::kCovered));
  if (state(block) == State::kHeld) count_held(block, -1);
  states_[index(block)] = State::kEvictable;
  evictable_.push(owner(block), block, policy_->priority(use));
}

bool BlockPool::well_formed() const {
  std::int64_t free = 0;
  std::int64_t evictable = 0;
  std::vector<Book> counted(owners_.size());
  for (BlockId block = 0; block < size(); ++block) {
    const State now = state(block);
    if ((now == State::kHeld) != (refs(block) > 0)) return false;
    if ((now == State::kEvictable) != evictable_.contains(block)) return false;
    free += now == State::kFree;
    evictable += now == State::kEvictable;
    if (now == State::kFree) continue;
    if (owner(block) >= counted.size()) return false;
    ++counted[owner(block)].has;
    counted[owner(block)].held += now == State::kHeld;
  }
  std::int64_t held = 0;
  for (size_t i = 0; i < owners_.size(); ++i) {
    if (counted[i].has != owners_[i].has || counted[i].held != owners_[i].held) return false;
    held += counted[i].held;
  }
  const bool free_is_free =
      std::ranges::all_of(free_, [this](BlockId block) { return state(block) == State::kFree; });
  return free_is_free && held == held_ && free == free_blocks() && evictable == evictable_.size() &&
         evictable_.well_formed();
}

}  // namespace kvasir
