#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvasir {
namespace {

std::optional<std::uint64_t> evicted_at(const PrefixIndex& index, const Key256& key) {
  const auto how = index.eviction_of(key);
  return how ? std::optional(how->tick) : std::nullopt;
}

using Tokens = std::vector<TokenId>;

// A key that is told apart by one byte.
Key256 key_of(int name) {
  Key256 key;
  key.bytes[0] = static_cast<std::uint8_t>(name);
  return key;
}

const Key256 kRoot = key_of(255);

TEST(PrefixIndex, FindsWhatWasInsertedAndNothingElse) {
  PrefixIndex index(4, 2);
  ASSERT_TRUE(index.insert(3, {key_of(1), kRoot, 0, 7}, Tokens{10, 11}));
  EXPECT_EQ(index.find(key_of(1), Tokens{10, 11}), 3);
  EXPECT_EQ(index.find(key_of(2), Tokens{10, 11}), std::nullopt);
  EXPECT_EQ(index.entry(3).born, 7U);
  EXPECT_EQ(index.entry(3).block_index, 0);
  EXPECT_TRUE(index.published(3));
  EXPECT_FALSE(index.published(0));
  EXPECT_EQ(index.size(), 1);
  EXPECT_TRUE(index.well_formed());
}

TEST(PrefixIndex, DoesNotBelieveAKeyWhoseTokensDiffer) {
  PrefixIndex index(4, 2);
  ASSERT_TRUE(index.insert(0, {key_of(1), kRoot, 0, 0}, Tokens{10, 11}));
  EXPECT_EQ(index.find(key_of(1), Tokens{10, 12}), std::nullopt);
}

TEST(PrefixIndex, ATakenKeyIsRefusedAndNothingChanges) {
  PrefixIndex index(4, 2);
  ASSERT_TRUE(index.insert(0, {key_of(1), kRoot, 0, 0}, Tokens{10, 11}));
  EXPECT_FALSE(index.insert(1, {key_of(1), kRoot, 0, 0}, Tokens{20, 21}));
  EXPECT_FALSE(index.published(1));
  EXPECT_EQ(index.find(key_of(1), Tokens{10, 11}), 0);
  EXPECT_TRUE(index.well_formed());
}

TEST(PrefixIndex, TheLongestAgreementWinsWhateverTheOrder) {
  for (const bool backwards : {false, true}) {
    PrefixIndex index(8, 4);
    const std::vector<Tokens> texts{{1, 9, 9, 9}, {1, 2, 3, 9}, {1, 2, 9, 9}, {7, 7, 7, 7}};
    for (int i = 0; i < 4; ++i) {
      const int text = backwards ? 3 - i : i;
      ASSERT_TRUE(index.insert(text, {key_of(text), kRoot, 0, 0}, texts[static_cast<size_t>(text)]));
    }
    const auto best = index.longest_agreement(kRoot, Tokens{1, 2, 3, 4});
    EXPECT_EQ(best.block, 1);
    EXPECT_EQ(best.tokens, 3);
    EXPECT_EQ(index.longest_agreement(kRoot, Tokens{1, 2}).tokens, 2);  // no more than was asked for
    const auto none = index.longest_agreement(kRoot, Tokens{5, 5});
    EXPECT_NE(none.block, kNoBlock);  // something continues the root, and agrees with nothing
    EXPECT_EQ(none.tokens, 0);
    EXPECT_EQ(index.longest_agreement(key_of(3), Tokens{1, 2}).block, kNoBlock);
  }
}

// Any child can go, in any order, and the others stay.
TEST(PrefixIndex, SiblingsSurviveEachOther) {
  std::vector<BlockId> order{0, 1, 2, 3};
  do {
    PrefixIndex index(4, 1);
    for (BlockId b = 0; b < 4; ++b) ASSERT_TRUE(index.insert(b, {key_of(b), kRoot, 0, 0}, Tokens{b}));
    for (size_t gone = 0; gone < 4; ++gone) {
      index.remove(order[gone], {.tick = 1});
      ASSERT_TRUE(index.well_formed());
      EXPECT_EQ(index.has_children(kRoot), gone < 3);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(index.longest_agreement(kRoot, Tokens{order[i]}).tokens, i > gone ? 1 : 0);
        EXPECT_EQ(index.block_of(key_of(order[i])).has_value(), i > gone);
      }
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST(PrefixIndex, RemembersWhenABlockWent) {
  PrefixIndex index(2, 1);
  EXPECT_EQ(evicted_at(index, key_of(1)), std::nullopt);
  ASSERT_TRUE(index.insert(0, {key_of(1), kRoot, 0, 0}, Tokens{1}));
  index.remove(0, {.tick = 42});
  EXPECT_EQ(evicted_at(index, key_of(1)), 42U);
  ASSERT_TRUE(index.insert(1, {key_of(1), kRoot, 0, 0}, Tokens{1}));
  EXPECT_EQ(evicted_at(index, key_of(1)), std::nullopt);  // it is back
}

TEST(PrefixIndex, RemembersAsManyAsThereAreBlocks) {
  PrefixIndex index(3, 1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(index.insert(0, {key_of(i), kRoot, 0, 0}, Tokens{i}));
    index.remove(0, {.tick = static_cast<std::uint64_t>(100 + i)});
  }
  for (int i = 0; i < 7; ++i) EXPECT_EQ(evicted_at(index, key_of(i)), std::nullopt);
  for (int i = 7; i < 10; ++i) EXPECT_EQ(evicted_at(index, key_of(i)), static_cast<std::uint64_t>(100 + i));
}

TEST(PrefixIndex, ABlockThatCameBackIsRememberedFromItsLastEviction) {
  PrefixIndex index(3, 1);
  const auto come_and_go = [&](int name, std::uint64_t tick) {
    ASSERT_TRUE(index.insert(0, {key_of(name), kRoot, 0, 0}, Tokens{name}));
    index.remove(0, {.tick = tick});
  };
  come_and_go(1, 1);
  come_and_go(1, 2);
  come_and_go(2, 3);
  come_and_go(3, 4);
  EXPECT_EQ(evicted_at(index, key_of(1)), 2U);  // the third last to go
  come_and_go(4, 5);
  EXPECT_EQ(evicted_at(index, key_of(1)), std::nullopt);
}

TEST(PrefixIndex, ChildrenOutliveTheirParent) {
  PrefixIndex index(3, 1);
  ASSERT_TRUE(index.insert(0, {key_of(1), kRoot, 0, 0}, Tokens{1}));
  ASSERT_TRUE(index.insert(1, {key_of(2), key_of(1), 1, 0}, Tokens{2}));
  index.remove(0, {.tick = 5});
  EXPECT_TRUE(index.has_children(key_of(1)));
  EXPECT_EQ(index.find(key_of(2), Tokens{2}), 1);
  EXPECT_TRUE(index.well_formed());
}

}  // namespace
}  // namespace kvasir
