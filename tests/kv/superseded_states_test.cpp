// Which states go first: those that a later one of the same text has taken the place of, before any of other texts.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/world.h"

namespace kvasir {
namespace {

using Text = World::Text;
using Keeps = CacheGroupConfig::Keeps;
using Stay = KvCache::Stay;

Text text_of(int tokens, int first) {
  Text text(static_cast<size_t>(tokens));
  std::iota(text.begin(), text.end(), first);
  return text;
}

// Blocks of four tokens, and pages of 64 of them or of one state: one page is enough for all rows of these tests.
class SupersededStates : public ::testing::Test {
 protected:
  explicit SupersededStates(std::int64_t states = 5)
      : world_(WorldConfig{4, {{{}, 64 * (1 + states), 16}, {{}, 0, 1024, Keeps::kState}}}) {}

  // A text in the cache, with states at these places.
  void chat(const Text& text, const std::vector<std::ptrdiff_t>& marks, const std::vector<Position>& expected = {},
            std::uint32_t tenant = 0) {
    world_.open(text, tenant);
    const size_t lease = world_.leases() - 1;
    world_.expect(lease, expected);
    auto from = std::ssize(world_.text(lease));
    for (const std::ptrdiff_t mark : marks) {
      if (mark <= from) continue;
      ASSERT_TRUE(world_.write(lease, {text.begin() + from, text.begin() + mark}));
      world_.keep_state(lease, Stay::kUntilEvicted);
      from = mark;
    }
    ASSERT_TRUE(world_.write(lease, {text.begin() + from, text.end()}));
    world_.release(lease);
    ASSERT_EQ(world_.wrong(), "");
  }

  // Other texts, each of which needs room for one state.
  void others(int count) {
    for (int i = 0; i < count; ++i, ++others_) chat(text_of(5, 1000 + 10 * others_), {4});
  }

  // What a text would find, without a use of it.
  Position found(const Text& text, std::uint32_t tenant = 0) const {
    return world_.expected_reuse(text, tenant).tokens;
  }

  World world_;
  int others_ = 0;
};

class SupersededStatesOfTenants : public SupersededStates {
 protected:
  SupersededStatesOfTenants() : SupersededStates(6) {}
};

TEST_F(SupersededStates, GoBeforeOlderOnesOfOtherTexts) {
  chat(text_of(9, 100), {8});  // the oldest
  chat(text_of(17, 0), {8, 16});
  others(2);
  EXPECT_EQ(found(text_of(12, 0)), 0);
  EXPECT_EQ(found(text_of(17, 0)), 16);
  EXPECT_EQ(found(text_of(9, 100)), 8);
  others(1);
  EXPECT_EQ(found(text_of(9, 100)), 0);  // then the oldest
  EXPECT_EQ(found(text_of(17, 0)), 16);
}

TEST_F(SupersededStates, AreThoseOfTheTurnBefore) {
  chat(text_of(9, 100), {8});
  chat(text_of(10, 0), {8});
  chat(text_of(17, 0), {16});  // goes on from 8
  others(2);
  EXPECT_EQ(found(text_of(12, 0)), 0);
  EXPECT_EQ(found(text_of(17, 0)), 16);
  EXPECT_EQ(found(text_of(9, 100)), 8);
}

TEST_F(SupersededStates, AreNotThoseThatTheTextIsGoneOnFrom) {
  chat(text_of(9, 100), {8});
  chat(text_of(17, 0), {8, 16}, {8});
  others(2);
  EXPECT_EQ(found(text_of(12, 0)), 8);
  EXPECT_EQ(found(text_of(17, 0)), 16);
  EXPECT_EQ(found(text_of(9, 100)), 0);  // the oldest of those that are in use
}

// What is expected was of use just now, though the text was found further on.
TEST_F(SupersededStates, WhatIsExpectedIsYoung) {
  chat(text_of(17, 0), {8, 16}, {8});
  chat(text_of(9, 100), {8});
  world_.open(text_of(18, 0), 0);
  world_.expect(0, {8});
  world_.release(0);
  others(2);
  EXPECT_EQ(found(text_of(9, 100)), 0);
  EXPECT_EQ(found(text_of(12, 0)), 8);
}

TEST_F(SupersededStates, OneThatIsFoundAgainIsShared) {
  chat(text_of(17, 0), {8, 16});
  Text other = text_of(17, 0);
  other[9] = 99;
  chat(other, {16});  // two texts went on from 8
  others(2);          // the first of them at 16 is the oldest
  EXPECT_EQ(found(other), 16);
  EXPECT_EQ(found(text_of(12, 0)), 8);
  EXPECT_EQ(found(text_of(17, 0)), 8);
}

TEST_F(SupersededStates, OneThatIsKeptWhereTextsPartIsShared) {
  chat(text_of(17, 0), {16});
  Text other = text_of(17, 0);
  other[9] = 99;
  EXPECT_EQ(world_.open(other, 0).rows_upto, 8);
  world_.release(0);
  chat(other, {8, 16});
  others(2);
  EXPECT_EQ(found(text_of(12, 0)), 8);
}

// Passing states go as they come, and what they pass is superseded like any other.
TEST_F(SupersededStates, AnAnswerSupersedesItsPrompt) {
  chat(text_of(9, 100), {8});
  world_.open(text_of(20, 0), 0);
  ASSERT_TRUE(world_.write(0, text_of(8, 0)));
  world_.keep_state(0, Stay::kUntilEvicted);
  for (int end = 12; end <= 16; end += 4) {
    ASSERT_TRUE(world_.write(0, text_of(4, end - 4)));
    world_.keep_state(0, Stay::kUntilNext);
  }
  world_.release(0);
  others(2);
  EXPECT_EQ(found(text_of(9, 0)), 0);
  EXPECT_EQ(found(text_of(17, 0)), 16);
  EXPECT_EQ(found(text_of(9, 100)), 8);
  EXPECT_EQ(world_.wrong(), "");
}

TEST_F(SupersededStates, AreToldOf) {
  chat(text_of(9, 100), {8});
  chat(text_of(17, 0), {8, 16});
  others(3);
  const ReuseReport report = world_.open(text_of(12, 0), 0);
  EXPECT_EQ(report.stop, ReuseStop::kStateBefore);
  EXPECT_EQ(report.rows_upto, 8);
  EXPECT_EQ(report.state_loss, StateLoss::kSuperseded);
  EXPECT_EQ(world_.open(text_of(9, 100), 0).state_loss, StateLoss::kEvicted);
  EXPECT_EQ(world_.open(text_of(17, 0), 0).state_loss, StateLoss::kNeverKept);  // it is there
  world_.release_all();
}

// A tenant's text that begins with the same tokens is another text.
TEST_F(SupersededStatesOfTenants, NobodySupersedesAnothers) {
  chat(text_of(10, 0), {8}, {}, 1);
  chat(text_of(10, 0), {8}, {}, 2);
  chat(text_of(17, 0), {16}, {}, 2);
  others(3);
  EXPECT_EQ(found(text_of(12, 0), 1), 8);
  EXPECT_EQ(found(text_of(12, 0), 2), 0);
  EXPECT_EQ(found(text_of(17, 0), 2), 16);
}

}  // namespace
}  // namespace kvasir
