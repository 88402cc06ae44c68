// Which KV blocks are dequantized for prefill on a GPU. Needs no device.
#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/attention/attention_args.h"
#include "backend/cuda/attention/prefill/dequant_kv.h"
#include "backend/cuda/attention/prefill/dequant_workspace.h"

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

std::vector<BlockId> add(std::vector<DequantBlock>& list, Position start, int rows, const Retention& retention) {
  return add_dequant_blocks(list, {nullptr, start, 0, rows}, retention, nullptr);
}

TEST(DequantBlocksTest, AreAllThatIsSeenAndNumberedInOrder) {
  std::vector<DequantBlock> list(3);  // of another sequence
  const std::vector<BlockId> table = add(list, 40, 10, {});
  EXPECT_EQ(table, (std::vector<BlockId>{3, 4, 5, 6}));
  ASSERT_EQ(list.size(), 7U);
  EXPECT_EQ(list[5].first, 32);
  EXPECT_EQ(list[6].end, 50);
}

// In whole chunks, as kernels read them.
TEST(DequantBlocksTest, AreSinksAndWindowAlone) {
  std::vector<DequantBlock> list;
  const std::vector<BlockId> table = add(list, 5 * kChunkTokens, 32, {kChunkTokens, 4});
  constexpr size_t kOfChunk = kChunkTokens / kBlockOfTile;
  ASSERT_EQ(table.size(), 5 * kOfChunk + 2);
  for (size_t i = 0; i < table.size(); ++i) {
    const bool seen = i < kOfChunk || i >= 4 * kOfChunk;
    EXPECT_EQ(table[i] != kNoBlock, seen) << i;
    if (!seen) continue;
    EXPECT_EQ(list[static_cast<size_t>(table[i])].first, static_cast<Position>(i) * kBlockOfTile);
  }
  EXPECT_EQ(list.size(), 2 * kOfChunk + 2);
}

TEST(DequantBlocksTest, HaveScalesWhereEitherSideHas) {
  for (const auto& [k, v] : {std::pair{KvFormat::kInt8, KvFormat::kInt8},
                             {KvFormat::kF16, KvFormat::kInt4},
                             {KvFormat::kE4M3, KvFormat::kBF16}}) {
    EXPECT_TRUE(can_dequantize(layout_of(k, v, 128)));
    EXPECT_TRUE(dequant_has_scales(dequant_layout(layout_of(k, v, 128), 8)));
  }
  EXPECT_FALSE(dequant_has_scales(dequant_layout(layout_of(KvFormat::kTop50, KvFormat::kTop50, 64), 8)));
}

TEST(DequantBlocksTest, AreNotOfWhatNoKernelMultiplies) {
  EXPECT_FALSE(can_dequantize(layout_of(KvFormat::kInt8, KvFormat::kInt8, 96)));
  EXPECT_FALSE(can_dequantize(layout_of(KvFormat::kF32, KvFormat::kInt8, 128)));
  EXPECT_FALSE(can_dequantize(layout_of(KvFormat::kBF16, KvFormat::kInt8, 128)));
  EXPECT_FALSE(can_dequantize(layout_of(KvFormat::kInt8, KvFormat::kF16, 128)));
}

TEST(DequantBlocksTest, AreOfAsManyHeadsAsTheWorkspaceHolds) {
  const KvLayout layout = layout_of(KvFormat::kE4M3, KvFormat::kE4M3, 128);
  EXPECT_EQ(DequantWorkspace::heads_at_once(layout, 100), 8);
  EXPECT_EQ(DequantWorkspace::heads_at_once(layout, 8192), 4);  // 64 MB a head
  EXPECT_EQ(DequantWorkspace::heads_at_once(layout, 100000), 1);
}

}  // namespace
}  // namespace kvasir::cuda
