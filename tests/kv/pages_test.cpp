// One memory for blocks of different sizes: pages change hands, and nothing is lost on the way.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/world.h"

namespace kvasir {
namespace {

using Text = World::Text;

Text consecutive(TokenId first, int tokens) {
  Text text(static_cast<size_t>(tokens));
  std::iota(text.begin(), text.end(), first);
  return text;
}

// Eight pages. The first policy has one block of four tokens in a page, the second four.
WorldConfig eight_pages() {
  WorldConfig config{4, {{{}, 8, 1024}}, "lru", WorldConfig::Copies::kEager, 0};
  config.more_policies = {{{{}, 0, 256}}};
  return config;
}

void cache_under(World& world, const Text& text, PolicyId policy, std::uint32_t tenant = 0) {
  world.open(text, tenant, policy);
  ASSERT_TRUE(world.write(world.leases() - 1, text));
  world.release(world.leases() - 1);
}

std::int64_t reused_under(World& world, const Text& text, PolicyId policy, std::uint32_t tenant = 0) {
  const std::int64_t tokens = world.open(text, tenant, policy).reused_tokens;
  world.release(world.leases() - 1);
  return tokens;
}

TEST(Pages, APolicyTakesWhatNobodyUsesAndThenWhatIsOldest) {
  World world(eight_pages());
  cache_under(world, consecutive(100, 12), 0);
  cache_under(world, consecutive(200, 12), 0);
  cache_under(world, consecutive(300, 32), 1);  // eight small blocks: the two pages that are empty
  EXPECT_EQ(reused_under(world, consecutive(100, 12), 0), 11);
  EXPECT_EQ(reused_under(world, consecutive(200, 12), 0), 11);
  EXPECT_EQ(world.cache().stats().evicted_blocks, 0);
  EXPECT_EQ(reused_under(world, consecutive(300, 32), 1), 31);
  cache_under(world, consecutive(400, 4), 1);  // one more page: of the text used longest ago
  EXPECT_EQ(reused_under(world, consecutive(200, 12), 0), 11);
  EXPECT_LT(reused_under(world, consecutive(100, 12), 0), 11);
  EXPECT_EQ(reused_under(world, consecutive(300, 32), 1), 31);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Pages, APolicyThatIsUsedEvictsItsOwnWhenOthersAreNewer) {
  World world(eight_pages());
  cache_under(world, consecutive(300, 64), 1);  // four pages
  cache_under(world, consecutive(100, 16), 0);  // the other four
  cache_under(world, consecutive(400, 4), 1);   // its own are older than the other policy's
  EXPECT_EQ(reused_under(world, consecutive(100, 16), 0), 15);
  EXPECT_EQ(reused_under(world, consecutive(300, 64), 1), 60);
  EXPECT_EQ(world.wrong(), "");
}

// Held blocks that are scattered over all pages are moved together, and read as before.
TEST(Pages, WhatIsHeldMovesSoThatAPageCanBeGiven) {
  World world(eight_pages());
  std::vector<Text> texts;
  for (int i = 0; i < 8; ++i) {  // a page's four blocks each: one stays held, three do not
    texts.push_back(consecutive(100 * i, 16));
    world.open(texts.back(), 0, 1);
    ASSERT_TRUE(world.write(world.leases() - 1, texts.back()));
  }
  for (size_t i = 0; i < 8; ++i) world.truncate(i, 4);
  EXPECT_EQ(world.cache().pool(1).held(), 8);
  world.open(consecutive(5000, 24), 0, 0);
  EXPECT_TRUE(world.write(8, consecutive(5000, 24)));  // six pages: two are left to the eight blocks
  EXPECT_FALSE(world.reserve(8, 1));
  EXPECT_EQ(world.cache().stats().moved_blocks, 6);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(world.lease(i).length(), 4);
  EXPECT_EQ(world.wrong(), "");
  world.release(8);
  for (const Text& text : texts) EXPECT_GE(reused_under(world, text, 1), 4);
  world.release_all();
  EXPECT_EQ(world.wrong(), "");
}

TEST(Pages, AQuotaCountsBytesWhateverThePolicy) {
  WorldConfig config = eight_pages();
  config.shares[1] = {0, 0.25, 1};  // two pages
  World world(config);
  cache_under(world, consecutive(100, 8), 0, 1);
  EXPECT_EQ(world.cache().tenant_stats(1).bytes, 2048);
  cache_under(world, consecutive(200, 16), 1, 1);  // a page of small blocks: one of the large ones goes
  EXPECT_EQ(world.cache().tenant_stats(1).bytes, 2048);
  EXPECT_EQ(reused_under(world, consecutive(100, 8), 0, 1), 4);
  EXPECT_EQ(world.open(consecutive(100, 8), 1, 0).evicted_for, EvictedFor::kOwnQuota);
  EXPECT_EQ(world.wrong(), "");
}

// A page that several tenants' blocks lie in changes hands: what one of them is guaranteed moves out of it.
TEST(Pages, WhatIsGuaranteedMovesOutOfAPageThatIsTaken) {
  WorldConfig config = eight_pages();
  config.shares[1] = {0.5, 1, 1};
  World world(config);
  std::vector<Text> texts;
  for (int i = 0; i < 8; ++i) {  // under the policy of small blocks, tenants in turn: both in every page
    texts.push_back(consecutive(static_cast<TokenId>(1000 + 100 * i), 4));
    cache_under(world, texts.back(), 1, 1);
    cache_under(world, consecutive(static_cast<TokenId>(5000 + 1000 * i), 12), 1, 2);
  }
  cache_under(world, consecutive(100, 24), 0, 2);  // six pages of the eight, by the other policy
  EXPECT_EQ(world.cache().tenant_stats(1).evicted_blocks, 0);
  for (const Text& text : texts) EXPECT_EQ(reused_under(world, text, 1, 1), 3);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Pages, WhatIsGuaranteedToATenantIsTakenLast) {
  WorldConfig config = eight_pages();
  config.shares[1] = {0.25, 1, 1};
  World world(config);
  cache_under(world, consecutive(100, 8), 0, 1);   // the oldest, and guaranteed
  cache_under(world, consecutive(200, 24), 0, 2);  // all others
  cache_under(world, consecutive(300, 48), 1, 2);  // three pages
  EXPECT_EQ(reused_under(world, consecutive(100, 8), 0, 1), 7);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Pages, ADroppedPolicyLeavesItsPagesAndItsNumber) {
  CacheConfig config;
  config.block_tokens = 4;
  config.policy.groups.push_back({{}, 100});
  config.pages = {in_order(4), 100};
  KvCache cache(config);
  CachePolicy small;
  small.key.bytes.fill(7);
  small.groups = {{{}, 30}, {{8, 0}, 50}};
  const PolicyId id = cache.add_policy(small);
  {
    KvLease lease = cache.open(consecutive(0, 8), {{}, 0, id}).lease;
    ASSERT_TRUE(cache.reserve(lease, 8));
    cache.commit(lease, consecutive(0, 8));
    EXPECT_TRUE(cache.in_use(id));
    EXPECT_EQ(cache.policy_stats(id).bytes, 2 * 30 + 2 * 50);
  }
  EXPECT_FALSE(cache.in_use(id));
  cache.drop_policy(id);
  EXPECT_EQ(cache.problem(), std::nullopt);
  EXPECT_EQ(cache.pool(0).size(), 4);
  small.groups = {{{}, 10}};
  EXPECT_EQ(cache.add_policy(small), id);
  KvLease lease = cache.open(consecutive(0, 8), {{}, 0, id}).lease;
  EXPECT_EQ(lease.length(), 0);
  EXPECT_TRUE(cache.reserve(lease, 4 * 40));
  EXPECT_FALSE(cache.reserve(lease, 4 * 40 + 1));
  EXPECT_EQ(cache.problem(), std::nullopt);
}

}  // namespace
}  // namespace kvasir
