#include "kv/block_pool.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir {

BlockPool::BlockPool(std::vector<BlockId> free_order, std::unique_ptr<EvictionPolicy> policy)
    : policy_(std::move(policy)),
      refs_(free_order.size(), 0),
      states_(free_order.size(), State::kFree),
      free_(free_order.rbegin(), free_order.rend()),
      evictable_(static_cast<std::int32_t>(free_order.size())) {
  std::vector<bool> seen(free_.size(), false);
  for (const BlockId block : free_) {
    CHECK(block >= 0 && index(block) < seen.size() && !seen[index(block)]);
    seen[index(block)] = true;
  }
}

std::optional<BlockPool::Taken> BlockPool::take() {
  Taken taken;
  if (!free_.empty()) {
    taken.block = free_.back();
    free_.pop_back();
  } else if (!evictable_.empty()) {
    taken = {evictable_.top(), State::kEvictable};
    policy_->evicted(evictable_.priority(taken.block));
    evictable_.remove(taken.block);
  } else {
    return std::nullopt;
  }
  CHECK(refs(taken.block) == 0);
  states_[index(taken.block)] = State::kHeld;
  refs_[index(taken.block)] = 1;
  ++held_;
  return taken;
}

void BlockPool::ref(BlockId block) {
  CHECK(state(block) != State::kFree);
  if (state(block) == State::kEvictable) evictable_.remove(block);
  if (state(block) != State::kHeld) ++held_;
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
  --held_;
}

void BlockPool::make_covered(BlockId block) {
  CHECK(state(block) == State::kHeld && refs(block) == 0);
  states_[index(block)] = State::kCovered;
  --held_;
}

void BlockPool::make_evictable(BlockId block, const BlockUse& use) {
  CHECK(refs(block) == 0 && (state(block) == State::kHeld || state(block) == State::kCovered));
  if (state(block) == State::kHeld) --held_;
  states_[index(block)] = State::kEvictable;
  evictable_.push(block, policy_->priority(use));
}

bool BlockPool::well_formed() const {
  std::int64_t held = 0;
  std::int64_t free = 0;
  std::int64_t evictable = 0;
  for (BlockId block = 0; block < size(); ++block) {
    const State now = state(block);
    if ((now == State::kHeld) != (refs(block) > 0)) return false;
    if ((now == State::kEvictable) != evictable_.contains(block)) return false;
    held += now == State::kHeld;
    free += now == State::kFree;
    evictable += now == State::kEvictable;
  }
  const bool free_is_free =
      std::ranges::all_of(free_, [this](BlockId block) { return state(block) == State::kFree; });
  return free_is_free && held == held_ && free == free_blocks() && evictable == evictable_.size() &&
         evictable_.well_formed();
}

}  // namespace kvasir
