// BlockTable and KvLease: values that own what they say they own.
#include "kv/lease.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "kv/cache.h"

namespace kvasir {
namespace {

static_assert(!std::is_copy_constructible_v<KvLease> && !std::is_copy_assignable_v<KvLease>);
static_assert(std::is_nothrow_move_constructible_v<KvLease> && std::is_nothrow_move_assignable_v<KvLease>);

TEST(BlockTable, KeepsSlotsInOrderWithHoles) {
  BlockTable table;
  EXPECT_EQ(table.size(), 0);
  for (const BlockId block : {7, 3, 9}) table.append(block);
  table.make_hole(1);
  table.replace(2, 4);
  EXPECT_EQ(table.size(), 3);
  EXPECT_EQ(table.at(0), 7);
  EXPECT_TRUE(table.hole(1));
  EXPECT_FALSE(table.hole(2));
  EXPECT_EQ(table.data()[2], 4);
  table.drop_last();
  EXPECT_EQ(table.size(), 2);
}

TEST(BlockTableDeathTest, AnEmptyTableHasNoLastSlot) {
  BlockTable table;
  EXPECT_DEATH(table.drop_last(), "empty");
}

class Lease : public ::testing::Test {
 protected:
  static CacheConfig config() {
    CacheConfig config;
    config.block_tokens = 2;
    config.policy.groups.push_back({{}, 1});
    config.pages = {in_order(8), 1};
    return config;
  }
  KvLease lease_of(const std::vector<TokenId>& tokens) {
    KvLease lease = cache.open(tokens, {}).lease;
    const auto rest = std::span(tokens).subspan(static_cast<size_t>(lease.length()));
    EXPECT_TRUE(cache.reserve(lease, std::ssize(rest)));
    cache.commit(lease, rest);
    return lease;
  }
  std::int64_t held() const { return cache.pool(0).held(); }

  KvCache cache{config()};
};

TEST_F(Lease, ADefaultLeaseHoldsNothing) {
  const KvLease lease;
  EXPECT_FALSE(lease.valid());
}

TEST_F(Lease, LetsGoInItsDestructor) {
  {
    const KvLease lease = lease_of({1, 2, 3});
    EXPECT_EQ(held(), 2);
  }
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(cache.problem(), std::nullopt);
}

TEST_F(Lease, MovesItsHold) {
  KvLease first = lease_of({1, 2, 3});
  const KvLease second = std::move(first);
  EXPECT_FALSE(first.valid());
  EXPECT_TRUE(second.valid());
  EXPECT_EQ(second.length(), 3);
  EXPECT_EQ(held(), 2);
  EXPECT_EQ(cache.problem(), std::nullopt);
}

TEST_F(Lease, AssignmentLetsGoOfTheOldHoldAtOnce) {
  KvLease first = lease_of({1, 2, 3, 4, 5});
  KvLease second = lease_of({9});
  EXPECT_EQ(held(), 4);
  first = std::move(second);
  EXPECT_FALSE(second.valid());
  EXPECT_EQ(held(), 1);
  first = KvLease();
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(cache.problem(), std::nullopt);
}

TEST_F(Lease, AssignedToItselfKeepsItsHold) {
  KvLease lease = lease_of({1, 2, 3});
  KvLease& same = lease;
  lease = std::move(same);
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(held(), 2);
}

// The end of a text goes before its start: the start is of use without the end, and not the other way round.
TEST_F(Lease, LetsGoTailFirst) {
  lease_of({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(cache.pool(0).state(0), BlockPool::State::kInterior);
  EXPECT_EQ(cache.pool(0).state(1), BlockPool::State::kInterior);
  EXPECT_EQ(cache.pool(0).state(2), BlockPool::State::kEvictable);
}

TEST_F(Lease, TwoThatWriteTheSameTextEndUpWithTheSameBlocks) {
  KvLease a = cache.open(std::vector<TokenId>{1, 2, 3}, {}).lease;
  KvLease b = cache.open(std::vector<TokenId>{1, 2, 3}, {}).lease;
  ASSERT_TRUE(cache.reserve(a, 3) && cache.reserve(b, 3));
  cache.commit(a, std::vector<TokenId>{1, 2, 3});
  cache.commit(b, std::vector<TokenId>{1, 2, 3});
  EXPECT_EQ(a.table(0).at(0), b.table(0).at(0));
  EXPECT_NE(a.table(0).at(1), b.table(0).at(1));
  EXPECT_EQ(cache.stats().deduplicated_blocks, 1);
  EXPECT_EQ(held(), 3);
}

TEST_F(Lease, CountsWhatWasAskedAndWhatWasFound) {
  lease_of({1, 2, 3, 4});
  const std::vector<TokenId> again{1, 2, 3, 5};
  KvCache::Opened opened = cache.open(again, {});
  ASSERT_TRUE(cache.reserve(opened.lease, 1));
  cache.commit(opened.lease, std::span(again).last(1));
  EXPECT_EQ(cache.stats().queried_tokens, 0);  // a request counts when it begins, however often it is opened
  cache.count_query(opened.lease, opened.report);
  EXPECT_EQ(cache.stats().queried_tokens, 4);
  EXPECT_EQ(cache.stats().hit_tokens, 3);
  EXPECT_EQ(cache.stats().published_blocks, 3);
  EXPECT_EQ(cache.stats().copied_blocks, 1);
}

TEST(LeaseDeathTest, MayNotOutliveItsCache) {
  EXPECT_DEATH(
      {
        CacheConfig config;
        config.policy.groups.push_back({{}, 1});
        config.pages.order = in_order(1);
        config.pages.bytes = 1;
        auto cache = std::make_unique<KvCache>(config);
        const KvLease lease = cache->open(std::vector<TokenId>{1}, {}).lease;
        cache.reset();
      },
      "leases_.empty");
}

}  // namespace
}  // namespace kvasir
