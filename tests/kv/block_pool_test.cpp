#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include "kv/cache.h"

namespace kvasir {
namespace {

using State = BlockPool::State;

BlockPool pool_of(const std::vector<BlockId>& order) {
  BlockPool pool(make_eviction_policy("lru"), std::make_shared<Owners>(), 1);
  pool.admit(order);
  return pool;
}

BlockUse used_at(std::uint64_t tick) { return {0, tick, 1, 1}; }

TEST(BlockPool, HandsOutFreeBlocksInTheOrderGiven) {
  BlockPool pool = pool_of({2, 0, 1});
  EXPECT_EQ(pool.size(), 3);
  EXPECT_EQ(pool.available(), 3);
  for (const BlockId expected : {2, 0, 1}) {
    const auto taken = pool.take();
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->block, expected);
    EXPECT_EQ(taken->was, State::kFree);
    EXPECT_EQ(pool.refs(expected), 1);
  }
  EXPECT_FALSE(pool.take().has_value());
  EXPECT_EQ(pool.held(), 3);
  EXPECT_TRUE(pool.well_formed());
}

TEST(BlockPool, FreeBlocksGoBeforeEvictableOnes) {
  BlockPool pool = pool_of({0, 1, 2});
  pool.take();
  pool.take();
  EXPECT_EQ(pool.unref(0), 0);
  pool.make_evictable(0, used_at(1));
  EXPECT_EQ(pool.take()->block, 2);
  const auto evicted = pool.take();
  EXPECT_EQ(evicted->block, 0);
  EXPECT_EQ(evicted->was, State::kEvictable);
  EXPECT_FALSE(pool.take().has_value());
}

TEST(BlockPool, TheLeastRecentlyUsedGoesFirst) {
  BlockPool pool = pool_of({0, 1, 2});
  for (int i = 0; i < 3; ++i) pool.take();
  for (const auto& [block, tick] : {std::pair{0, 30U}, {1, 10U}, {2, 20U}}) {
    pool.unref(block);
    pool.make_evictable(block, used_at(tick));
  }
  EXPECT_EQ(pool.take()->block, 1);
  EXPECT_EQ(pool.take()->block, 2);
  EXPECT_EQ(pool.take()->block, 0);
}

TEST(BlockPool, AHeldBlockIsNeverTaken) {
  BlockPool pool = pool_of({0, 1});
  pool.take();
  pool.take();
  pool.ref(0);
  EXPECT_EQ(pool.refs(0), 2);
  EXPECT_EQ(pool.unref(0), 1);
  EXPECT_EQ(pool.state(0), State::kHeld);
  EXPECT_FALSE(pool.take().has_value());
}

TEST(BlockPool, AnEvictableBlockCanBeHeldAgain) {
  BlockPool pool = pool_of({0});
  pool.take();
  pool.unref(0);
  pool.make_evictable(0, used_at(1));
  EXPECT_EQ(pool.held(), 0);
  pool.ref(0);
  EXPECT_EQ(pool.held(), 1);
  EXPECT_FALSE(pool.take().has_value());
  EXPECT_TRUE(pool.well_formed());
}

TEST(BlockPool, AnInteriorBlockWaitsUntilItIsALeaf) {
  BlockPool pool = pool_of({0});
  pool.take();
  pool.unref(0);
  pool.make_interior(0);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_FALSE(pool.take().has_value());
  pool.make_evictable(0, used_at(1));
  EXPECT_EQ(pool.take()->block, 0);
  EXPECT_TRUE(pool.well_formed());
}

TEST(BlockPool, ABlockOfWhichMoreIsKnownGoesAtAnotherTime) {
  BlockPool pool = pool_of({0, 1});
  for (int block = 0; block < 2; ++block) pool.take();
  for (const BlockId block : {0, 1}) {
    pool.unref(block);
    pool.make_evictable(block, used_at(static_cast<std::uint64_t>(block) + 1));
  }
  pool.rank_again(1, {0, 2, 1, 1, true});
  EXPECT_EQ(pool.next_to_go(0), 1);
  EXPECT_TRUE(pool.well_formed());
}

TEST(BlockPool, ACoveredBlockCanBeHeldAgain) {
  BlockPool pool = pool_of({0});
  pool.take();
  pool.unref(0);
  pool.make_interior(0);
  pool.ref(0);
  EXPECT_EQ(pool.state(0), State::kHeld);
  EXPECT_EQ(pool.held(), 1);
}

TEST(BlockPool, AFreedBlockIsTakenAgain) {
  BlockPool pool = pool_of({0, 1});
  pool.take();
  pool.unref(0);
  pool.make_free(0);
  EXPECT_EQ(pool.free_blocks(), 2);
  EXPECT_EQ(pool.take()->was, State::kFree);
  EXPECT_TRUE(pool.well_formed());
}

TEST(BlockPoolDeathTest, ABlockIsNotFreedTwice) {
  BlockPool pool = pool_of({0});
  pool.take();
  pool.unref(0);
  pool.make_free(0);
  EXPECT_DEATH(pool.unref(0), "check failed");
  EXPECT_DEATH(pool.make_free(0), "check failed");
}

TEST(BlockPoolDeathTest, AFreeBlockIsNotHeld) {
  BlockPool pool = pool_of({0});
  EXPECT_DEATH(pool.ref(0), "check failed");
}

TEST(BlockPool, BlocksComeAndGo) {
  BlockPool pool = pool_of({0, 1});
  pool.admit(std::vector<BlockId>{6, 7});
  EXPECT_EQ(pool.size(), 4);
  EXPECT_EQ(pool.state(4), State::kAbsent);
  pool.expel(std::vector<BlockId>{1, 7});
  EXPECT_EQ(pool.size(), 2);
  EXPECT_EQ(pool.take()->block, 6);
  EXPECT_EQ(pool.take()->block, 0);
  EXPECT_FALSE(pool.take().has_value());
  EXPECT_TRUE(pool.well_formed());
}

TEST(BlockPool, WhatIsKnownOfABlockMovesWithIt) {
  BlockPool pool = pool_of({0, 1, 2});
  pool.take(5);
  pool.ref(0);
  pool.move(0, 2);
  EXPECT_EQ(pool.refs(2), 2);
  EXPECT_EQ(pool.owner(2), 5U);
  EXPECT_EQ(pool.state(0), State::kFree);
  EXPECT_EQ(pool.held(), 1);
  EXPECT_EQ(pool.free_blocks(), 2);
  EXPECT_TRUE(pool.well_formed());
}

TEST(BlockPoolDeathTest, NothingIsAdmittedTwiceOrExpelledInUse) {
  EXPECT_DEATH(pool_of({0, 0}), "check failed");
  EXPECT_DEATH(pool_of({-1, 0}), "check failed");
  BlockPool pool = pool_of({0});
  pool.take();
  EXPECT_DEATH(pool.expel(std::vector<BlockId>{0}), "check failed");
}

}  // namespace
}  // namespace kvasir
