// States of recurrent layers beside rows: kept at ends of blocks, found there, copied before they are written.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/world.h"

namespace kvasir {
namespace {

using Text = World::Text;
using Keeps = CacheGroupConfig::Keeps;
using Stay = KvCache::Stay;

Text ascending(int tokens, int first = 0) {
  Text text(static_cast<size_t>(tokens));
  std::iota(text.begin(), text.end(), first);
  return text;
}

// Blocks of four tokens, and states four times as large.
World world_of_states(std::int64_t blocks = 32) {
  return World({4, {{{}, blocks, 256}, {{}, 0, 1024, Keeps::kState}}});
}

// A text in the cache, with states at these places.
void cache_and_keep(World& world, const Text& text, const std::vector<std::ptrdiff_t>& marks) {
  world.open(text, 0);
  const size_t lease = world.leases() - 1;
  auto from = std::ssize(world.text(lease));
  for (const std::ptrdiff_t mark : marks) {
    ASSERT_TRUE(world.write(lease, {text.begin() + from, text.begin() + mark}));
    world.keep_state(lease, Stay::kUntilEvicted);
    from = mark;
  }
  ASSERT_TRUE(world.write(lease, {text.begin() + from, text.end()}));
  world.release(lease);
}

TEST(States, AreFoundAtTheFarthestPlaceWhereOneWasKept) {
  World world = world_of_states();
  cache_and_keep(world, ascending(22), {8, 16});
  EXPECT_EQ(world.open(ascending(22), 0).reused_tokens, 16);
  EXPECT_EQ(world.open(ascending(16), 0).reused_tokens, 8);  // one token is left to compute
  EXPECT_EQ(world.open(ascending(10), 0).reused_tokens, 8);
  EXPECT_EQ(world.open(ascending(7), 0).reused_tokens, 0);
  EXPECT_EQ(world.wrong(), "");
}

TEST(States, WhatLiesBehindTheNearestIsNamed) {
  World world = world_of_states();
  cache_and_keep(world, ascending(22), {8});
  const ReuseReport report = world.open(ascending(22), 0);
  EXPECT_EQ(report.stop, ReuseStop::kStateBefore);
  EXPECT_EQ(report.stopped_at, 8);
  EXPECT_EQ(report.rows_upto, 20);
  const ReuseReport whole = world.open(ascending(12), 0);  // the rest would end inside a block
  EXPECT_EQ(whole.stop, ReuseStop::kShortTail);
  Text parted = ascending(22);
  parted[9] = 99;
  const ReuseReport other = world.open(parted, 0);
  EXPECT_EQ(other.reused_tokens, 8);
  EXPECT_EQ(other.stop, ReuseStop::kDiverged);
  EXPECT_EQ(world.wrong(), "");
}

TEST(States, OneThatIsKeptIsNotWritten) {
  World world = world_of_states();
  cache_and_keep(world, ascending(9), {8});
  world.open(ascending(12), 0);
  world.open(ascending(20, 0), 0);
  ASSERT_TRUE(world.write(0, {50, 51}));  // each goes on from a copy: the world compares
  ASSERT_TRUE(world.write(1, {60}));
  world.fork(1);
  ASSERT_TRUE(world.write(2, {61}));
  ASSERT_TRUE(world.write(1, {62}));
  EXPECT_EQ(world.copies_made(), 5);  // one when the text was first written on, and one of an open block
  EXPECT_EQ(world.open(ascending(12), 0).reused_tokens, 8);
  EXPECT_EQ(world.wrong(), "");
}

TEST(States, OneThatPassesGivesWayToTheNext) {
  World world = world_of_states();
  world.open(ascending(30), 0);
  for (int end = 4; end <= 16; end += 4) {
    ASSERT_TRUE(world.write(0, ascending(4, end - 4)));
    world.keep_state(0, end == 8 ? Stay::kUntilEvicted : Stay::kUntilNext);
  }
  EXPECT_EQ(world.published(1), 2);  // at 8 and at 16
  world.release(0);
  EXPECT_EQ(world.open(ascending(17), 0).reused_tokens, 16);
  EXPECT_EQ(world.open(ascending(15), 0).reused_tokens, 8);
  EXPECT_EQ(world.wrong(), "");
}

TEST(States, AreNamedInsideAPublicTextByTheSystemAlone) {
  for (const std::uint32_t tenant : {0U, 1U}) {
    WorldConfig config{4, {{{}, 32, 256}, {{}, 0, 1024, Keeps::kState}}};
    config.public_text = ascending(10);
    World world(config);
    world.open(ascending(9), tenant);
    ASSERT_TRUE(world.write(0, ascending(8)));
    world.keep_state(0, Stay::kUntilEvicted);
    EXPECT_EQ(world.open(ascending(12), 2).reused_tokens, tenant == 0 ? 8 : 0);
    EXPECT_EQ(world.wrong(), "");
  }
}

TEST(States, ALeaseGoesBackToItsBeginningAndNowhereElse) {
  World world = world_of_states();
  world.open(ascending(12), 0);
  ASSERT_TRUE(world.write(0, ascending(10)));
  EXPECT_TRUE(world.cache().may_truncate(world.lease(0), 10));
  EXPECT_FALSE(world.cache().may_truncate(world.lease(0), 8));
  world.truncate(0, 0);
  ASSERT_TRUE(world.write(0, ascending(3)));
  EXPECT_EQ(world.wrong(), "");
}

// A page of rows becomes one of states and the other way round, whichever was used longer ago.
TEST(States, TakeTheMemoryThatIsUsedLeast) {
  World world = world_of_states(20);  // five pages
  cache_and_keep(world, ascending(30), {8, 16});
  EXPECT_GT(world.published(1), 0);
  for (int text = 0; text < 4; ++text) cache_and_keep(world, ascending(30, 100 * (text + 1)), {});
  EXPECT_EQ(world.open(ascending(30, 400), 0).stop, ReuseStop::kStateBefore);
  EXPECT_EQ(world.wrong(), "");
}

}  // namespace
}  // namespace kvasir
