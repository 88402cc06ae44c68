// Leases of a policy that evicts tokens: rows are fewer than tokens, blocks are given back, and nothing has a name.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/cache.h"

namespace kvasir {
namespace {

class PrivateLease : public ::testing::Test {
 protected:
  // Two groups of blocks of four tokens; policy 0 shares, policy 1 does not.
  static CacheConfig config() {
    CacheConfig config;
    config.block_tokens = 4;
    config.policy.groups = {{{}, 1}, {{}, 1}};
    config.pages = {in_order(40), 1};
    return config;
  }
  PrivateLease() {
    CachePolicy policy = config().policy;
    policy.key.bytes.fill(7);
    policy.sharing = CachePolicy::Sharing::kPrivate;
    private_ = cache.add_policy(policy);
  }

  KvLease lease_of(std::int64_t tokens, PolicyId policy) {
    std::vector<TokenId> text(static_cast<size_t>(tokens));
    std::iota(text.begin(), text.end(), 1);
    KvCache::Opened opened = cache.open(text, {{}, 0, policy});
    report = opened.report;
    extend(opened.lease, tokens - opened.lease.length());
    return std::move(opened.lease);
  }
  void extend(KvLease& lease, std::int64_t tokens) {
    std::vector<TokenId> text(static_cast<size_t>(tokens));
    std::iota(text.begin(), text.end(), static_cast<TokenId>(lease.length() + 1));
    ASSERT_TRUE(cache.reserve(lease, tokens));
    cache.commit(lease, text);
    ASSERT_EQ(cache.problem(), std::nullopt);
  }
  std::int64_t held(size_t group) const { return cache.pool(cache.groups_of(private_)[group]).held(); }

  KvCache cache{config()};
  PolicyId private_ = 0;
  ReuseReport report;
};

TEST_F(PrivateLease, IsNeverPublishedAndNeverFound) {
  { const KvLease shared = lease_of(20, 0); }
  for (int round = 0; round < 2; ++round) {
    const KvLease lease = lease_of(20, private_);
    EXPECT_EQ(report.reused_tokens, 0);
    EXPECT_EQ(report.stop, ReuseStop::kPrivate);
    EXPECT_TRUE(lease.keys().empty());
  }
  EXPECT_EQ(held(0), 0);
  EXPECT_EQ(cache.policy_stats(private_).blocks, 0);
  std::vector<TokenId> text(20);
  std::iota(text.begin(), text.end(), 1);
  EXPECT_EQ(cache.reusable(text, {{}, 0, private_}), 0);
  EXPECT_TRUE(cache.block_keys(text, {{}, 0, private_}).empty());
  EXPECT_EQ(cache.reusable(text, {}), 19);  // what is shared is as it was
}

TEST_F(PrivateLease, GivesBackWhatItsRowsDoNotNeed) {
  KvLease lease = lease_of(20, private_);
  EXPECT_EQ(held(0), 5);
  cache.shrink(lease, 0, 9);
  EXPECT_EQ(held(0), 3);
  EXPECT_EQ(held(1), 5);
  EXPECT_EQ(lease.length(), 20);
  EXPECT_EQ(lease.rows(0), 9);
  EXPECT_EQ(lease.rows(1), 20);
  EXPECT_EQ(cache.problem(), std::nullopt);
  extend(lease, 3);  // fills the block that is open
  EXPECT_EQ(held(0), 3);
  EXPECT_EQ(held(1), 6);
  extend(lease, 1);
  EXPECT_EQ(held(0), 4);
  EXPECT_EQ(lease.rows(0), 13);
  cache.shrink(lease, 0, 9);
  cache.shrink(lease, 1, 4);
  EXPECT_EQ(held(0), 3);
  EXPECT_EQ(held(1), 1);
  EXPECT_EQ(lease.length(), 24);
  EXPECT_EQ(cache.policy_stats(private_).evicted_rows, 11 + 4 + 20);
}

TEST_F(PrivateLease, GoesBackToItsBeginningAndNowhereElse) {
  KvLease lease = lease_of(20, private_);
  cache.shrink(lease, 0, 9);
  EXPECT_FALSE(cache.may_truncate(lease, 19));
  EXPECT_TRUE(cache.may_truncate(lease, 20));
  cache.truncate(lease, 20);
  EXPECT_EQ(lease.rows(0), 9);
  EXPECT_TRUE(cache.may_truncate(lease, 0));
  cache.truncate(lease, 0);
  EXPECT_EQ(lease.rows(0), 0);
  EXPECT_EQ(held(0) + held(1), 0);
  extend(lease, 20);
  EXPECT_EQ(lease.rows(0), 20);
}

TEST_F(PrivateLease, NeedsRoomForRowsAlone) {
  KvLease lease = lease_of(64, private_);  // 16 blocks of each group
  EXPECT_FALSE(cache.reserve(lease, 24));
  cache.shrink(lease, 0, 4);
  cache.shrink(lease, 1, 4);
  EXPECT_TRUE(cache.reserve(lease, 72));
  EXPECT_EQ(held(0), 19);
}

}  // namespace
}  // namespace kvasir
