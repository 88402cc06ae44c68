#include "kv/tenant.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kv/world.h"

namespace kvasir {
namespace {

using Text = World::Text;

Text forty() {
  Text text(40);
  std::iota(text.begin(), text.end(), 0);
  return text;
}

TEST(Tenant, AnotherTenantsTextWasNeverSeenThoughItIsCached) {
  World world({4, {{{}, 32}}, "lru", WorldConfig::Copies::kEager, 0});
  world.open(forty(), 1);
  ASSERT_TRUE(world.write(0, forty()));
  world.release(0);
  const ReuseReport own = world.open(forty(), 1);
  EXPECT_EQ(own.reused_tokens, 39);
  const ReuseReport other = world.open(forty(), 2);
  EXPECT_EQ(other.reused_tokens, 0);
  EXPECT_EQ(other.stop, ReuseStop::kNeverSeen);
  EXPECT_EQ(other.stopped_at, 0);
  EXPECT_EQ(world.wrong(), "");
}

// A tenant cannot learn from the answer that the other's text was there and went.
TEST(Tenant, AnotherTenantsEvictedTextWasNeverSeenEither) {
  World world({4, {{{}, 10}}, "lru", WorldConfig::Copies::kEager, 0});
  world.open(forty(), 1);
  ASSERT_TRUE(world.write(0, forty()));
  world.release(0);
  world.open(forty(), 2);
  ASSERT_TRUE(world.write(0, forty()));  // evicts all of the first
  world.release(0);
  EXPECT_EQ(world.open(forty(), 1).stop, ReuseStop::kEvicted);
  EXPECT_EQ(world.open(forty(), 3).stop, ReuseStop::kNeverSeen);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Tenant, TheSecretSeparatesAndNotTheId) {
  CacheConfig config;
  config.block_tokens = 4;
  config.policy.groups.push_back({{}, 1});
  config.pages = {in_order(32), 1};
  KvCache cache(config);
  const auto reuse_after_writing = [&](const Tenant& tenant) {
    KvCache::Opened opened = cache.open(forty(), tenant);
    const Text all = forty();
    const auto rest = std::span(all).subspan(static_cast<size_t>(opened.lease.length()));
    EXPECT_TRUE(cache.reserve(opened.lease, std::ssize(rest)));
    cache.commit(opened.lease, rest);
    return opened.report.reused_tokens;
  };
  Tenant one{1, {}};
  one.secret.bytes[31] = 1;  // the last byte counts as well
  EXPECT_EQ(reuse_after_writing({1, {}}), 0);
  EXPECT_EQ(reuse_after_writing(one), 0);
  EXPECT_EQ(reuse_after_writing({2, one.secret}), 39);
}

}  // namespace
}  // namespace kvasir
