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

}  // namespace
}  // namespace kvasir::cuda
