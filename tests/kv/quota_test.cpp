// Shares of the pool: whose blocks go first, and who gets no more.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/world.h"

namespace kvasir {
namespace {

using Text = World::Text;

constexpr TenantShare kNoLimit{};

Text text_from(TokenId first, int tokens) {
  Text text(static_cast<size_t>(tokens));
  std::iota(text.begin(), text.end(), first);
  return text;
}

WorldConfig ten_blocks(std::map<std::uint32_t, TenantShare> shares) {
  WorldConfig config{4, {{{}, 10}}, "lru", WorldConfig::Copies::kEager, 0};
  config.shares = std::move(shares);
  return config;
}

// Caches a text and lets go of it; its last token is not in a full block of its own.
void cache_text(World& world, const Text& text, std::uint32_t tenant) {
  world.open(text, tenant);
  ASSERT_TRUE(world.write(world.leases() - 1, text));
  world.release(world.leases() - 1);
}

std::int64_t reused(World& world, const Text& text, std::uint32_t tenant) {
  const std::int64_t tokens = world.open(text, tenant).reused_tokens;
  world.release(world.leases() - 1);
  return tokens;
}

TEST(Quota, EvictionTakesFromThoseOverTheirGuaranteeFirst) {
  World world(ten_blocks({{1, {0.4, 1, 1}}, {2, kNoLimit}}));
  cache_text(world, text_from(100, 16), 1);  // the oldest: without a guarantee it would go first
  cache_text(world, text_from(200, 24), 2);
  cache_text(world, text_from(300, 12), 2);  // needs three blocks
  EXPECT_EQ(reused(world, text_from(100, 16), 1), 15);
  EXPECT_EQ(reused(world, text_from(200, 24), 2), 12);
  EXPECT_EQ(world.cache().tenant_stats(1).evicted_blocks, 0);
  EXPECT_EQ(world.cache().tenant_stats(2).evicted_blocks, 3);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Quota, NobodyTakesWhatIsGuaranteedToAnother) {
  World world(ten_blocks({{1, {0.4, 1, 1}}}));
  cache_text(world, text_from(100, 16), 1);
  for (int i = 1; i < 7; ++i) cache_text(world, text_from(static_cast<TokenId>(100 * i + 100), 24), 2);
  EXPECT_EQ(reused(world, text_from(100, 16), 1), 15);
  world.open(text_from(900, 28), 2);
  EXPECT_TRUE(world.write(0, text_from(900, 24)));
  EXPECT_FALSE(world.reserve(0, 4));  // the seventh of ten
  EXPECT_EQ(world.cache().tenant_stats(1).evicted_blocks, 0);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Quota, WhatAGuaranteeLeavesIdleIsLentAndTakenBack) {
  World world(ten_blocks({{1, {0.4, 1, 1}}}));
  cache_text(world, text_from(200, 40), 2);  // all ten: nobody else wants them
  EXPECT_EQ(world.cache().tenant_stats(2).blocks, 10);
  cache_text(world, text_from(100, 16), 1);
  EXPECT_EQ(world.cache().tenant_stats(2).blocks, 6);
  EXPECT_EQ(world.cache().tenant_stats(1).evicted_blocks, 0);
  EXPECT_TRUE(world.cache().within_guarantee(0, 1, 4));
  EXPECT_FALSE(world.cache().within_guarantee(0, 1, 5));
  EXPECT_EQ(world.wrong(), "");
}

TEST(Quota, OwnersGiveUpTheirOwnBeforeAnothersGuarantee) {
  World world(ten_blocks({{1, {0.4, 1, 1}}, {2, {0.6, 1, 1}}}));
  cache_text(world, text_from(100, 16), 1);  // the oldest, and guaranteed
  cache_text(world, text_from(200, 24), 2);  // guaranteed too
  cache_text(world, text_from(300, 8), 2);
  EXPECT_EQ(world.cache().tenant_stats(1).evicted_blocks, 0);
  EXPECT_EQ(world.cache().tenant_stats(2).evicted_blocks, 2);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Quota, ALengthFitsBesideWhatOthersAreGuaranteed) {
  World world(ten_blocks({{1, {0.4, 1, 1}}}));
  EXPECT_TRUE(world.fits_alone(0, 24, 2));
  EXPECT_FALSE(world.fits_alone(0, 25, 2));
  EXPECT_TRUE(world.fits_alone(0, 40, 1));
}

TEST(Quota, WhoHasTheMostGetsBackItsOwnAndNoMore) {
  World world(ten_blocks({{1, {0, 0.5, 1}}}));
  cache_text(world, text_from(100, 20), 1);
  cache_text(world, text_from(200, 8), 1);
  EXPECT_EQ(world.cache().tenant_stats(1).blocks, 5);
  EXPECT_EQ(world.cache().pool(0).free_blocks(), 5);  // they are not for this tenant
  EXPECT_EQ(reused(world, text_from(100, 20), 1), 12);
  world.open(text_from(300, 24), 1);
  EXPECT_FALSE(world.write(0, text_from(300, 24)));  // six blocks
  EXPECT_TRUE(world.write(0, text_from(300, 20)));
  EXPECT_FALSE(world.cache().fits_alone(21, {0, 0.5, 1}));
  EXPECT_TRUE(world.cache().fits_alone(20, {0, 0.5, 1}));
  EXPECT_EQ(world.wrong(), "");
}

TEST(Quota, TheReportTellsForWhomABlockWent) {
  World world(ten_blocks({{1, {0, 0.5, 1}}}));
  cache_text(world, text_from(100, 20), 1);
  cache_text(world, text_from(200, 20), 1);
  const ReuseReport by_quota = world.open(text_from(100, 20), 1);
  EXPECT_EQ(by_quota.stop, ReuseStop::kEvicted);
  EXPECT_EQ(by_quota.evicted_for, EvictedFor::kOwnQuota);
  world.release_all();

  cache_text(world, text_from(300, 40), 2);  // the whole pool
  const ReuseReport by_others = world.open(text_from(200, 20), 1);
  EXPECT_EQ(by_others.stop, ReuseStop::kEvicted);
  EXPECT_EQ(by_others.evicted_for, EvictedFor::kOthers);
  EXPECT_EQ(by_others.evicted_by, 0U);
  EXPECT_EQ(describe(by_others).find("request"), std::string::npos) << describe(by_others);
  world.release_all();

  cache_text(world, text_from(400, 40), 2);
  const ReuseReport by_own = world.open(text_from(300, 40), 2);
  EXPECT_EQ(by_own.evicted_for, EvictedFor::kOwnRequest);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Quota, WhatIsToldNamesTheRequestAndTheTime) {
  CacheConfig config;
  config.block_tokens = 4;
  config.policy.groups.push_back({{}, 1});
  config.pages = {in_order(2), 1};
  KvCache cache(config);
  const auto run = [&cache](const Text& text, std::uint64_t request) {
    KvCache::Opened opened = cache.open(text, {{}, request});
    EXPECT_TRUE(cache.reserve(opened.lease, std::ssize(text) - opened.lease.length()));
    cache.commit(opened.lease, std::span(text).subspan(static_cast<size_t>(opened.lease.length())));
    return opened.report;
  };
  cache.set_clock(10);
  run(text_from(0, 8), 7);
  cache.set_clock(12);
  run(text_from(50, 8), 8);
  cache.set_clock(13.5);
  const ReuseReport report = run(text_from(0, 8), 9);
  EXPECT_EQ(report.stop, ReuseStop::kEvicted);
  EXPECT_EQ(report.evicted_by, 8U);
  EXPECT_DOUBLE_EQ(report.evicted_seconds_ago, 1.5);
  EXPECT_NE(describe(report).find("for your request 8, 1.5 s ago"), std::string::npos) << describe(report);
  EXPECT_DOUBLE_EQ(cache.stats().block_lifetime.sum(), 2 * 2 + 2 * 1.5);
}

}  // namespace
}  // namespace kvasir
