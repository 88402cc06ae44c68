#include "kv/block_pool.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace kvasir {

BlockPool::BlockPool(std::unique_ptr<EvictionPolicy> policy, std::shared_ptr<Owners> owners, std::int64_t weight)
    : policy_(std::move(policy)), owners_(std::move(owners)), weight_(weight), evictable_(0) {
  CHECK(weight > 0);
}

void BlockPool::admit(std::span<const BlockId> blocks) {
  if (blocks.empty()) return;
  const size_t limit = std::max(refs_.size(), index(*std::ranges::max_element(blocks)) + 1);
  refs_.resize(limit, 0);
  states_.resize(limit, State::kAbsent);
  owner_.resize(limit, 0);
  evictable_.grow(static_cast<std::int32_t>(limit));
  for (size_t i = blocks.size(); i > 0; --i) {
    const BlockId block = blocks[i - 1];
    CHECK(block >= 0 && state(block) == State::kAbsent);
    states_[index(block)] = State::kFree;
    free_.push_back(block);
    touch(block);
  }
  size_ += std::ssize(blocks);
}

void BlockPool::expel(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    CHECK(state(block) == State::kFree);
    states_[index(block)] = State::kAbsent;
    touch(block);
  }
  std::erase_if(free_, [this](BlockId block) { return state(block) == State::kAbsent; });
  size_ -= std::ssize(blocks);
}

bool BlockPool::at_its_most(OwnerId owner) const {
  const Owners::Book book = owners_->of(owner);
  return book.has > book.limits.most - weight_;
}

void BlockPool::count_held(BlockId block, std::int64_t by) {
  held_ += by;
  if (owner(block) >= held_of_.size()) held_of_.resize(owner(block) + 1, 0);
  held_of_[owner(block)] += by;
  owners_->count(owner(block), 0, by * weight_);
}

void BlockPool::count_owned(OwnerId owner, std::int64_t by) {
  if (owner >= owned_.size()) owned_.resize(owner + 1, 0);
  owned_[owner] += by;
  owners_->count(owner, by * weight_, 0);
}

// The owner whose next evictable block goes. A linear walk over owners: they are tenants, and few.
std::optional<OwnerId> BlockPool::whose_goes_next(OwnerId asking) const {
  if (at_its_most(asking)) {
    if (evictable_.empty(asking)) return std::nullopt;
    return asking;
  }
  std::optional<OwnerId> best;
  const auto rank = [&](OwnerId owner) {
    const BlockId block = evictable_.top(owner);
    return std::tuple(owner != asking && !owners_->over_guarantee(owner), evictable_.priority(block), block);
  };
  for (OwnerId owner = 0; owner < evictable_.heaps(); ++owner) {
    if (evictable_.empty(owner)) continue;
    if (!best || rank(owner) < rank(*best)) best = owner;
  }
  return best;
}

std::optional<BlockId> BlockPool::next_of(OwnerId owner) const {
  if (evictable_.empty(owner)) return std::nullopt;
  return evictable_.top(owner);
}

std::optional<BlockId> BlockPool::next_to_go(OwnerId asking) const {
  const std::optional<OwnerId> owner = whose_goes_next(asking);
  return owner ? next_of(*owner) : std::nullopt;
}

std::optional<BlockPool::Taken> BlockPool::take(OwnerId owner) {
  Taken taken;
  if (free_.empty() || at_its_most(owner)) {
    const std::optional<BlockId> next = next_to_go(owner);
    if (!next) return std::nullopt;
    taken = {*next, State::kEvictable, owner_[index(*next)]};
    evict(*next);
  }
  taken.block = free_.back();
  free_.pop_back();
  CHECK(refs(taken.block) == 0);
  states_[index(taken.block)] = State::kHeld;
  refs_[index(taken.block)] = 1;
  owner_[index(taken.block)] = owner;
  touch(taken.block);
  count_owned(owner, 1);
  count_held(taken.block, 1);
  return taken;
}

void BlockPool::evict(BlockId block) {
  CHECK(state(block) == State::kEvictable);
  policy_->evicted(evictable_.priority(block));
  evictable_.remove(block);
  states_[index(block)] = State::kFree;
  free_.push_back(block);
  count_owned(owner(block), -1);
  touch(block);
}

void BlockPool::ref(BlockId block) {
  CHECK(state(block) != State::kFree && state(block) != State::kAbsent);
  if (state(block) == State::kEvictable) evictable_.remove(block);
  if (state(block) != State::kHeld) count_held(block, 1);
  states_[index(block)] = State::kHeld;
  ++refs_[index(block)];
  touch(block);
}

int BlockPool::unref(BlockId block) {
  CHECK(state(block) == State::kHeld && refs(block) > 0);
  touch(block);
  return --refs_[index(block)];
}

void BlockPool::make_free(BlockId block) {
  CHECK(state(block) == State::kHeld && refs(block) == 0);
  states_[index(block)] = State::kFree;
  free_.push_back(block);
  count_held(block, -1);
  count_owned(owner(block), -1);
}

void BlockPool::make_interior(BlockId block) {
  CHECK(state(block) == State::kHeld && refs(block) == 0);
  states_[index(block)] = State::kInterior;
  count_held(block, -1);
}

void BlockPool::make_evictable(BlockId block, const BlockUse& use) {
  CHECK(refs(block) == 0 && (state(block) == State::kHeld || state(block) == State::kInterior));
  if (state(block) == State::kHeld) count_held(block, -1);
  states_[index(block)] = State::kEvictable;
  evictable_.push(owner(block), block, policy_->priority(use));
  touch(block);
}

void BlockPool::rank_again(BlockId block, const BlockUse& use) {
  CHECK(state(block) == State::kEvictable);
  evictable_.remove(block);
  evictable_.push(owner(block), block, policy_->priority(use));
}

void BlockPool::move(BlockId held, BlockId free) {
  CHECK(state(held) == State::kHeld && state(free) == State::kFree);
  std::erase(free_, free);
  states_[index(free)] = State::kHeld;
  refs_[index(free)] = refs(held);
  owner_[index(free)] = owner(held);
  states_[index(held)] = State::kFree;
  refs_[index(held)] = 0;
  free_.push_back(held);
  touch(held);
  touch(free);
}

void BlockPool::give(BlockId held, OwnerId to) {
  CHECK(state(held) == State::kHeld);
  count_held(held, -1);
  count_owned(owner(held), -1);
  owner_[index(held)] = to;
  count_owned(to, 1);
  count_held(held, 1);
  touch(held);
}

void BlockPool::track_changes(Tracking tracking) {
  tracking_ = tracking;
  changed_ = {};
  is_changed_ = {};
}

void BlockPool::touch(BlockId block) {
  if (tracking_ == Tracking::kOff) return;
  if (is_changed_.size() <= index(block)) is_changed_.resize(refs_.size());
  if (is_changed_[index(block)]) return;
  is_changed_[index(block)] = true;
  changed_.push_back(block);
}

std::vector<BlockId> BlockPool::take_changed() {
  for (const BlockId block : changed_) is_changed_[index(block)] = false;
  return std::exchange(changed_, {});
}

bool BlockPool::well_formed() const {
  std::array<std::int64_t, 5> count{};  // by state
  std::vector<std::int64_t> counted(owned_.size(), 0);
  std::vector<std::int64_t> counted_held(held_of_.size(), 0);
  for (BlockId block = 0; block < id_limit(); ++block) {
    const State now = state(block);
    if ((now == State::kHeld) != (refs(block) > 0)) return false;
    if ((now == State::kEvictable) != evictable_.contains(block)) return false;
    ++count[static_cast<size_t>(now)];
    if (now == State::kFree || now == State::kAbsent) continue;
    if (owner(block) >= counted.size()) return false;
    ++counted[owner(block)];
    if (now == State::kHeld && owner(block) >= counted_held.size()) return false;
    if (now == State::kHeld) ++counted_held[owner(block)];
  }
  const bool free_is_free =
      std::ranges::all_of(free_, [this](BlockId block) { return state(block) == State::kFree; });
  const auto are = [&](State one) { return count[static_cast<size_t>(one)]; };
  return free_is_free && counted == owned_ && counted_held == held_of_ && evictable_.well_formed() &&
         id_limit() - are(State::kAbsent) == size_ && are(State::kHeld) == held_ &&
         are(State::kFree) == free_blocks() && are(State::kEvictable) == evictable_.size();
}

}  // namespace kvasir
