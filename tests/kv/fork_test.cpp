#include <gtest/gtest.h>

#include "kv/world.h"

namespace kvasir {
namespace {

using Text = World::Text;

World world_of(std::int64_t blocks) { return World({4, {{{}, blocks}}, "lru", WorldConfig::Copies::kEager, 0}); }

TEST(Fork, BothGoOnDifferentlyAndOneCopyIsMade) {
  World world = world_of(8);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2, 3, 4, 5, 6}));
  world.fork(0);
  EXPECT_EQ(world.cache().pool(0).held(), 2);  // all is shared
  ASSERT_TRUE(world.write(1, {70, 71, 72}));
  ASSERT_TRUE(world.write(0, {80, 81, 82}));  // the last holder of the open block writes into it
  EXPECT_EQ(world.wrong(), "");
  EXPECT_EQ(world.copies_made(), 1);
  EXPECT_EQ(world.cache().stats().copied_blocks, 1);
  EXPECT_EQ(world.lease(0).table(0).at(0), world.lease(1).table(0).at(0));
  EXPECT_NE(world.lease(0).table(0).at(1), world.lease(1).table(0).at(1));
  EXPECT_EQ(world.text(0), (Text{1, 2, 3, 4, 5, 6, 80, 81, 82}));
  EXPECT_EQ(world.text(1), (Text{1, 2, 3, 4, 5, 6, 70, 71, 72}));
}

TEST(Fork, AtTheEndOfABlockNothingIsCopied) {
  World world = world_of(8);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2, 3, 4}));
  world.fork(0);
  ASSERT_TRUE(world.write(0, {5}));
  ASSERT_TRUE(world.write(1, {6}));
  EXPECT_EQ(world.wrong(), "");
  EXPECT_EQ(world.copies_made(), 0);
}

TEST(Fork, BothGoOnAlikeAndEndUpWithOneBlock) {
  World world = world_of(8);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2, 3, 4, 5, 6}));
  world.fork(0);
  ASSERT_TRUE(world.write(0, {7, 8}));
  ASSERT_TRUE(world.write(1, {7, 8}));
  EXPECT_EQ(world.wrong(), "");
  EXPECT_EQ(world.cache().stats().deduplicated_blocks, 1);
  EXPECT_EQ(world.lease(0).table(0).at(1), world.lease(1).table(0).at(1));
  EXPECT_EQ(world.cache().pool(0).held(), 2);
}

TEST(Fork, WhatTheOtherReservedIsNotShared) {
  World world = world_of(8);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2, 3, 4}));
  ASSERT_TRUE(world.reserve(0, 8));
  world.fork(0);
  EXPECT_EQ(world.lease(0).table(0).size(), 3);
  EXPECT_EQ(world.lease(1).table(0).size(), 1);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Fork, WithoutRoomForTheCopyTheWriteIsRefused) {
  World world = world_of(2);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2, 3, 4, 5}));
  world.fork(0);
  EXPECT_FALSE(world.reserve(0, 1));
  EXPECT_FALSE(world.reserve(1, 1));
  world.release(0);
  EXPECT_TRUE(world.write(0, {6}));  // alone again: no copy needed
  EXPECT_EQ(world.copies_made(), 0);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Fork, OfAForkOfAFork) {
  World world = world_of(16);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2}));
  for (size_t i = 0; i < 5; ++i) world.fork(i);
  for (size_t i = 0; i < 6; ++i) ASSERT_TRUE(world.write(i, {static_cast<TokenId>(10 + i), 3, 4}));
  EXPECT_EQ(world.wrong(), "");
  EXPECT_EQ(world.copies_made(), 5);
  world.release_all();
  EXPECT_EQ(world.wrong(), "");
}

// A truncated lease goes on behind a block that others find by its name: it may not write into it.
TEST(Truncate, IntoANamedBlockGoesOnInACopy) {
  World world = world_of(8);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2, 3, 4}));
  world.truncate(0, 2);
  ASSERT_TRUE(world.write(0, {9, 9}));
  EXPECT_EQ(world.copies_made(), 1);
  EXPECT_EQ(world.open({1, 2, 3, 4, 5}, 0).reused_tokens, 4);
  EXPECT_EQ(world.open({1, 2, 9, 9, 5}, 0).reused_tokens, 4);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Truncate, WithoutRoomForACopyTheNameIsGivenUp) {
  World world = world_of(1);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2, 3, 4}));
  world.truncate(0, 2);
  ASSERT_TRUE(world.write(0, {9, 9}));
  EXPECT_EQ(world.copies_made(), 0);
  EXPECT_EQ(world.published(0), 1);
  world.release(0);
  EXPECT_EQ(world.open({1, 2, 9, 9, 5}, 0).reused_tokens, 4);
  EXPECT_EQ(world.wrong(), "");
}

TEST(Truncate, GivesBackWhatWasReserved) {
  World world = world_of(8);
  world.open({1}, 0);
  ASSERT_TRUE(world.write(0, {1, 2, 3}));
  ASSERT_TRUE(world.reserve(0, 20));
  EXPECT_EQ(world.cache().pool(0).held(), 6);
  world.truncate(0, 3);
  EXPECT_EQ(world.cache().pool(0).held(), 1);
  EXPECT_EQ(world.wrong(), "");
}

}  // namespace
}  // namespace kvasir
