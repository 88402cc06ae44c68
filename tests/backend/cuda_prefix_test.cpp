// How prefixes that sequences share are divided among the processors of a GPU. Needs no device.
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/prefix_plan.h"

namespace kvasir::cuda {
namespace {

constexpr int kProcessors = 132;

PrefixCut cut(int groups, int splits, int heads) {
  return cut_prefixes(std::vector<int>(static_cast<size_t>(groups), splits), heads, kProcessors);
}

TEST(PrefixPlanTest, SpansAreWholeWhereTheyAreEnoughForAllProcessors) {
  EXPECT_EQ(cut(4, 128, 8).splits_of_sum, kSpanSplits);  // 512 spans
  EXPECT_EQ(cut(4, 4 * kSpanSplits, 8).splits_of_piece, kSpanSplits);
  EXPECT_EQ(cut(32, 2 * kSpanSplits - 1, 2).splits_of_sum, kSpanSplits);
}

TEST(PrefixPlanTest, FewerSpansAreDividedSoThatAllProcessorsHaveAPiece) {
  EXPECT_EQ(cut(4, kSpanSplits, 8).splits_of_sum, 1);
  EXPECT_EQ(cut(4, kSpanSplits, 8).splits_of_piece, kSpanSplits / 4);  // 128 pieces
  EXPECT_EQ(cut(1, 8, 8).splits_of_piece, 1);
  EXPECT_EQ(cut(1, 32, 8).splits_of_piece, 2);
}

TEST(PrefixPlanTest, NoMoreBlocksThanItTakesForTheSameRounds) {
  EXPECT_EQ(blocks_for_pieces(512, kProcessors), 128);
  EXPECT_EQ(blocks_for_pieces(132, kProcessors), 132);
  EXPECT_EQ(blocks_for_pieces(133, kProcessors), 67);
  EXPECT_EQ(blocks_for_pieces(1, kProcessors), 1);
}

std::vector<PrefixPiece> pieces_of(int count, int splits) {
  return std::vector<PrefixPiece>(static_cast<size_t>(count), PrefixPiece{0, 0, 0, splits});
}

TEST(PrefixPlanTest, ProcessorsWithoutPiecesTakeItemsMeanwhile) {
  constexpr int kWarps = 6;
  constexpr int kOfRound = kProcessors * kWarps;
  // Four of them, for as long as four spans take.
  EXPECT_EQ(items_beside_pieces(1024, kWarps, pieces_of(512, kSpanSplits), kProcessors), 1024 - kOfRound);
  EXPECT_EQ(items_beside_pieces(kOfRound + 240, kWarps, pieces_of(512, kSpanSplits), kProcessors), 240);
  EXPECT_EQ(items_beside_pieces(kOfRound + 241, kWarps, pieces_of(512, kSpanSplits), kProcessors), 0);  // no time
  EXPECT_EQ(items_beside_pieces(2 * kOfRound + 9, kWarps, pieces_of(512, kSpanSplits), kProcessors), 9);
  EXPECT_EQ(items_beside_pieces(kOfRound, kWarps, pieces_of(512, kSpanSplits), kProcessors), 0);  // one round
  EXPECT_EQ(items_beside_pieces(100, kWarps, pieces_of(512, kSpanSplits), kProcessors), 0);       // not even that
  EXPECT_EQ(items_beside_pieces(kOfRound + 1, kWarps, pieces_of(528, kSpanSplits), kProcessors),
            0);  // all have pieces
  // What AttentionTest.PrefixesOnFewProcessors… has: a span of 8 KV heads on 5 processors, and 200 items.
  EXPECT_EQ(cut_prefixes(std::vector{kSpanSplits}, 8, 5).splits_of_piece, kSpanSplits);
  EXPECT_EQ(items_beside_pieces(200, 6, pieces_of(8, kSpanSplits), 5), 20);
  EXPECT_EQ(items_beside_pieces(200, 8, pieces_of(8, kSpanSplits), 5), 40);
}

}  // namespace
}  // namespace kvasir::cuda
