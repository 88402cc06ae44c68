// Which sequences of a batch begin with the same blocks.
#include "backend/shared_prefixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace kvasir {
namespace {

constexpr int kBlockTokens = 4;
constexpr int kPieceBlocks = 3;

// Sequences of 40 blocks each, of which the first come from another one.
class SharedPrefixesTest : public ::testing::Test {
 protected:
  int add(Position start = 40 * kBlockTokens - 1, int like = -1, int blocks = 0) {
    const int number = static_cast<int>(tables_.size());
    std::vector<BlockId> table(40);
    std::iota(table.begin(), table.end(), 1000 * number);
    if (like >= 0) std::copy_n(tables_[static_cast<size_t>(like)].begin(), blocks, table.begin());
    tables_.push_back(table);
    starts_.push_back(start);
    return number;
  }
  void drop_block(int sequence, int block) {
    tables_[static_cast<size_t>(sequence)][static_cast<size_t>(block)] = kNoBlock;
  }

  std::vector<SharedPrefix> find(int least = 1, int cost = 0) const {
    std::vector<SequenceView> sequences;
    for (size_t i = 0; i < tables_.size(); ++i) {
      sequences.push_back({tables_[i].data(), starts_[i], static_cast<int>(i), 1});
    }
    std::vector<int> all(tables_.size());
    std::iota(all.begin(), all.end(), 0);
    return find_shared_prefixes(sequences, all, {kBlockTokens, kPieceBlocks, least, cost});
  }

 private:
  std::vector<std::vector<BlockId>> tables_;
  std::vector<Position> starts_;
};

using Ints = std::vector<int>;

TEST_F(SharedPrefixesTest, AreOfWholePieces) {
  add();
  add(159, 0, 11);
  add();
  const std::vector<SharedPrefix> found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].sequences, (Ints{0, 1}));
  EXPECT_EQ(found[0].pieces, 3);
}

TEST_F(SharedPrefixesTest, OfFewThatCostMoreThanTheySaveAreNone) {
  add();
  for (int i = 0; i < 3; ++i) add(159, 0, 30);
  add(159, 0, 12);
  EXPECT_EQ(find(1, 2).size(), 1U);
  EXPECT_EQ(find(1, 2)[0].sequences, (Ints{0, 1, 2, 3}));  // 10 pieces, where all five would save 2 times 4
  EXPECT_EQ(find(1, 2)[0].pieces, 10);
  EXPECT_TRUE(find(1, 4).empty());
  EXPECT_TRUE(find(11, 2).empty());
}

TEST_F(SharedPrefixesTest, LieBeforeAllRows) {
  add();
  add(2 * kPieceBlocks * kBlockTokens, 0, 30);
  add(2 * kPieceBlocks * kBlockTokens - 1, 0, 30);
  std::vector<SharedPrefix> found = find();
  ASSERT_EQ(found.size(), 1U);  // two pieces of two, or one of three
  EXPECT_EQ(found[0].pieces, 1);
  EXPECT_EQ(found[0].sequences, (Ints{0, 1, 2}));
  add(2 * kPieceBlocks * kBlockTokens, 0, 30);
  found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].pieces, 2);
  EXPECT_EQ(found[0].sequences, (Ints{0, 1, 3}));
}

TEST_F(SharedPrefixesTest, AreThoseThatSaveMost) {
  add();
  for (int i = 0; i < 3; ++i) add(159, 0, 6);   // four with two pieces: six reads less
  for (int i = 0; i < 2; ++i) add(159, 0, 36);  // of these three with twelve: 24 less
  const std::vector<SharedPrefix> found = find();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].sequences, (Ints{0, 4, 5}));
  EXPECT_EQ(found[0].pieces, 12);
  EXPECT_EQ(found[1].sequences, (Ints{1, 2, 3}));  // what is left shares among itself
  EXPECT_EQ(found[1].pieces, 2);
}

TEST_F(SharedPrefixesTest, EndAtHolesAndWhereTheyAreNotWorthIt) {
  const int first = add();
  drop_block(first, 7);
  add(159, 0, 30);
  ASSERT_EQ(find(2).size(), 1U);
  EXPECT_EQ(find(2)[0].pieces, 2);
  EXPECT_TRUE(find(3).empty());
}

TEST_F(SharedPrefixesTest, OfSequencesThatBeginTooEarlyThereAreNone) {
  add(11);
  add(11, 0, 30);
  EXPECT_TRUE(find().empty());
}

}  // namespace
}  // namespace kvasir
