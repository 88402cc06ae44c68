// Which blocks of a prompt's context are widened for the kernels of a GPU. Needs no device.
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/attention_args.h"
#include "backend/cuda/wide_blocks.h"
#include "backend/cuda/wide_room.h"

namespace kvasir::cuda {
namespace {

KvLayout layout_of(KvFormat k, KvFormat v, int dim, int heads = 8) {
  KvGroup group;
  group.layers = {0, 1};
  group.shape = {heads, dim, dim};
  group.k_format = k;
  group.v_format = v;
  return make_layout(group, 16);
}

std::vector<BlockId> add(std::vector<WideBlock>& list, Position start, int rows, const Retention& retention) {
  return add_wide_blocks(list, {nullptr, start, 0, rows}, retention, nullptr);
}

TEST(WideBlocksTest, AreAllThatIsSeenAndNumberedInOrder) {
  std::vector<WideBlock> list(3);  // of another sequence
  const std::vector<BlockId> table = add(list, 40, 10, {});
  EXPECT_EQ(table, (std::vector<BlockId>{3, 4, 5, 6}));
  ASSERT_EQ(list.size(), 7U);
  EXPECT_EQ(list[5].first, 32);
  EXPECT_EQ(list[6].end, 50);
}

// In whole splits, as kernels look at them.
TEST(WideBlocksTest, AreSinksAndWindowAlone) {
  std::vector<WideBlock> list;
  const std::vector<BlockId> table = add(list, 5 * kSplitTokens, 32, {kSplitTokens, 4});
  constexpr size_t kOfSplit = kSplitTokens / kBlockOfTile;
  ASSERT_EQ(table.size(), 5 * kOfSplit + 2);
  for (size_t i = 0; i < table.size(); ++i) {
    const bool seen = i < kOfSplit || i >= 4 * kOfSplit;
    EXPECT_EQ(table[i] != kNoBlock, seen) << i;
    if (!seen) continue;
    EXPECT_EQ(list[static_cast<size_t>(table[i])].first, static_cast<Position>(i) * kBlockOfTile);
  }
  EXPECT_EQ(list.size(), 2 * kOfSplit + 2);
}

TEST(WideBlocksTest, HaveScalesWhereEitherSideHas) {
  for (const auto& [k, v] : {std::pair{KvFormat::kInt8, KvFormat::kInt8},
                             {KvFormat::kF16, KvFormat::kInt4},
                             {KvFormat::kE4M3, KvFormat::kBF16}}) {
    EXPECT_TRUE(can_widen(layout_of(k, v, 128)));
    EXPECT_TRUE(is_wide_with_scales(wide_layout(layout_of(k, v, 128), 8)));
  }
  EXPECT_FALSE(is_wide_with_scales(wide_layout(layout_of(KvFormat::kTop50, KvFormat::kTop50, 64), 8)));
}

TEST(WideBlocksTest, AreNotOfWhatNoKernelMultiplies) {
  EXPECT_FALSE(can_widen(layout_of(KvFormat::kInt8, KvFormat::kInt8, 96)));
  EXPECT_FALSE(can_widen(layout_of(KvFormat::kF32, KvFormat::kInt8, 128)));
  EXPECT_FALSE(can_widen(layout_of(KvFormat::kBF16, KvFormat::kInt8, 128)));
  EXPECT_FALSE(can_widen(layout_of(KvFormat::kInt8, KvFormat::kF16, 128)));
}

TEST(WideBlocksTest, AreOfAsManyHeadsAsThereIsRoomFor) {
  const KvLayout layout = layout_of(KvFormat::kE4M3, KvFormat::kE4M3, 128);
  EXPECT_EQ(WideRoom::heads_at_once(layout, 100), 8);
  EXPECT_EQ(WideRoom::heads_at_once(layout, 8192), 4);  // 64 MB a head
  EXPECT_EQ(WideRoom::heads_at_once(layout, 100000), 1);
}

}  // namespace
}  // namespace kvasir::cuda
