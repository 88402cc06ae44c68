// How prefixes that sequences share are divided among the processors of a GPU. Needs no device.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backend/cuda/prefix_plan.h"
#include "layout/codec.h"

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

// Sequences of one token behind `splits` that they share.
PrefixPlan plan_of(KvFormat format, int dim, int sequences, int splits) {
  const KvGroup group{{0}, {8, dim, dim}, format, format, {}};
  std::vector<BlockId> table(static_cast<size_t>(splits * kSplitTokens / kBlockOfTile));
  std::iota(table.begin(), table.end(), 0);
  std::vector<SequenceView> views;
  for (int i = 0; i < sequences; ++i) views.push_back({table.data(), splits * kSplitTokens, i, 1});
  const std::vector<const BlockId*> tables(views.size(), table.data());
  AttentionBatch batch;
  batch.heads = 8;
  batch.sequences = views;
  batch.view.layout = make_layout(group, kBlockOfTile);
  PrefixRules rules;
  rules.most_rows = 1;
  rules.processors = 4;
  if (has_scale(format)) rules.cost = cost_of_widening(batch.view.layout);
  return plan_prefixes(batch, tables, rules);
}

// What AttentionTest.SpansOfPrefixesOnFewProcessors… and .WidenedPrefixesOnFewProcessors… have.
TEST(PrefixPlanTest, SmallOnesAreSharedOnFewProcessors) {
  for (const int dim : {64, 128}) {
    EXPECT_EQ(plan_of(KvFormat::kBF16, dim, 6, 15).begun.at(5).splits, kSpanSplits);
    EXPECT_EQ(plan_of(KvFormat::kBF16, dim, 6, 15).pieces.size(), 2U * 8);
    EXPECT_EQ(plan_of(KvFormat::kBF16, dim, 6, 17).begun.at(5).splits, 1);
    EXPECT_EQ(plan_of(KvFormat::kBF16, dim, 6, 17).begun.at(5).count, 17);
  }
  EXPECT_GT(plan_of(KvFormat::kE4M3, 128, 28, 6).pieces.size(), 0U);
  EXPECT_EQ(plan_of(KvFormat::kE4M3, 128, 16, 6).pieces.size(), 0U);  // too few
}

}  // namespace
}  // namespace kvasir::cuda
