// Texts that all tenants share: blocks wholly inside one are everybody's, all later ones their tenant's.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/world.h"

namespace kvasir {
namespace {

using Text = World::Text;

Text counting(int tokens) {
  Text text(static_cast<size_t>(tokens));
  std::iota(text.begin(), text.end(), 0);
  return text;
}

// Ten tokens are public: two blocks of four, and two tokens that no block has to itself.
World world_with_public_text() {
  WorldConfig config{4, {{{}, 32}}, "lru", WorldConfig::Copies::kEager, 0};
  config.public_text = counting(10);
  return World(config);
}

TEST(PublicText, ItsWholeBlocksAreSharedAndNothingAfterThem) {
  World world = world_with_public_text();
  world.open(counting(24), 1);
  ASSERT_TRUE(world.write(0, counting(24)));
  const ReuseReport other = world.open(counting(24), 2);
  EXPECT_EQ(other.reused_tokens, 8);  // not 10: the third block has private tokens in it
  EXPECT_EQ(other.public_tokens, 8);
  EXPECT_EQ(other.stop, ReuseStop::kNeverSeen);
  const ReuseReport own = world.open(counting(24), 1);
  EXPECT_EQ(own.reused_tokens, 23);
  EXPECT_EQ(own.public_tokens, 8);
  EXPECT_EQ(world.wrong(), "");
}

// Else the answer would tell how the other's text goes on after the public one.
TEST(PublicText, AnotherTenantsContinuationIsNotFoundAmongThePublicBlocksChildren) {
  World world = world_with_public_text();
  world.open(counting(16), 1);
  ASSERT_TRUE(world.write(0, counting(16)));
  Text guess = counting(11);
  guess.push_back(99);
  guess.push_back(99);
  const ReuseReport other = world.open(guess, 2);
  EXPECT_EQ(other.reused_tokens, 8);
  EXPECT_EQ(other.stop, ReuseStop::kNeverSeen);
  EXPECT_EQ(world.wrong(), "");
}

TEST(PublicText, APromptThatLeavesItInsideABlockIsPrivateFromThatBlockOn) {
  World world = world_with_public_text();
  Text text = counting(12);
  text[6] = 99;
  world.open(text, 1);
  ASSERT_TRUE(world.write(0, text));
  const ReuseReport other = world.open(text, 2);
  EXPECT_EQ(other.reused_tokens, 4);
  EXPECT_EQ(world.wrong(), "");
}

TEST(PublicText, WhatIsWrittenDecidesNotWhatWasPromised) {
  World world = world_with_public_text();
  world.open(counting(12), 1);
  Text lie = counting(12);
  lie[5] = 99;
  ASSERT_TRUE(world.write(0, lie));
  EXPECT_EQ(world.open(counting(12), 2).reused_tokens, 4);
  EXPECT_EQ(world.wrong(), "");
}

// A block that was taken for everybody, and got a private name, would else stand before others of its tenant's own: none
// of those could go before it, nor it before them.
TEST(PublicText, WhatBecamePrivateIsItsTenants) {
  WorldConfig config{4, {{{}, 10}}, "lru", WorldConfig::Copies::kEager, 0};
  config.public_text = counting(10);
  config.shares[1] = {0.2, 0.5, 1};
  World world(config);
  Text lie = counting(16);
  lie[1] = 99;
  world.open(counting(16), 1);
  ASSERT_TRUE(world.write(0, lie));
  EXPECT_EQ(world.cache().tenant_stats(1).blocks, 4);
  world.release(0);
  world.open(Text(40, 7), 2);
  EXPECT_FALSE(world.reserve(0, 36));  // two blocks are guaranteed to the other tenant
  EXPECT_TRUE(world.write(0, Text(32, 7)));
  EXPECT_EQ(world.cache().tenant_stats(1).blocks, 2);
  EXPECT_EQ(world.wrong(), "");
}

TEST(PublicText, ItsBlocksAreNobodysQuota) {
  WorldConfig config{4, {{{}, 10}}, "lru", WorldConfig::Copies::kEager, 0};
  config.public_text = counting(10);
  config.shares[1] = {0, 0.2, 1};
  World world(config);
  world.open(counting(16), 1);
  EXPECT_TRUE(world.write(0, counting(16)));  // two public blocks, and the two it may have
  EXPECT_EQ(world.cache().tenant_stats(1).blocks, 2);
  EXPECT_FALSE(world.write(0, {1}));
  EXPECT_EQ(world.wrong(), "");
}

}  // namespace
}  // namespace kvasir
