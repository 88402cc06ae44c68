// How shared prefixes are divided among the SMs of a GPU. Needs no device.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backend/cuda/attention/prefix_plan.h"
#include "layout/codec.h"

namespace kvasir::cuda {
namespace {

constexpr int kSmCount = 132;

PrefixPartition cut(int cohorts, int chunks, int heads) {
  return partition_prefixes(std::vector<int>(static_cast<size_t>(cohorts), chunks), heads, kSmCount);
}

TEST(PrefixPlanTest, ChunkGroupsAreWholeWhereTheyAreEnoughForAllSms) {
  EXPECT_EQ(cut(4, 128, 8).chunks_of_partial, kGroupChunks);  // 512 chunk groups
  EXPECT_EQ(cut(4, 4 * kGroupChunks, 8).chunks_of_item, kGroupChunks);
  EXPECT_EQ(cut(32, 2 * kGroupChunks - 1, 2).chunks_of_partial, kGroupChunks);
}

TEST(PrefixPlanTest, FewerChunkGroupsAreDividedSoThatAllSmsHaveAnItem) {
  EXPECT_EQ(cut(4, kGroupChunks, 8).chunks_of_partial, 1);
  EXPECT_EQ(cut(4, kGroupChunks, 8).chunks_of_item, kGroupChunks / 4);  // 128 prefix items
  EXPECT_EQ(cut(1, 8, 8).chunks_of_item, 1);
  EXPECT_EQ(cut(1, 32, 8).chunks_of_item, 2);
}

TEST(PrefixPlanTest, NoMoreCtasThanItTakesForTheSameRounds) {
  EXPECT_EQ(ctas_for_prefix_items(512, kSmCount), 128);
  EXPECT_EQ(ctas_for_prefix_items(132, kSmCount), 132);
  EXPECT_EQ(ctas_for_prefix_items(133, kSmCount), 67);
  EXPECT_EQ(ctas_for_prefix_items(1, kSmCount), 1);
}

std::vector<PrefixWorkItem> prefix_items_of(int count, int chunks) {
  return std::vector<PrefixWorkItem>(static_cast<size_t>(count), PrefixWorkItem{0, 0, 0, chunks});
}

TEST(PrefixPlanTest, SmsWithoutPrefixItemsTakeOtherItemsMeanwhile) {
  constexpr int kWarps = 6;
  constexpr int kOfRound = kSmCount * kWarps;
  // Four of them, for as long as four chunk groups take.
  EXPECT_EQ(items_beside_prefixes(1024, kWarps, prefix_items_of(512, kGroupChunks), kSmCount), 1024 - kOfRound);
  EXPECT_EQ(items_beside_prefixes(kOfRound + 240, kWarps, prefix_items_of(512, kGroupChunks), kSmCount), 240);
  EXPECT_EQ(items_beside_prefixes(kOfRound + 241, kWarps, prefix_items_of(512, kGroupChunks), kSmCount),
            0);  // no time
  EXPECT_EQ(items_beside_prefixes(2 * kOfRound + 9, kWarps, prefix_items_of(512, kGroupChunks), kSmCount), 9);
  EXPECT_EQ(items_beside_prefixes(kOfRound, kWarps, prefix_items_of(512, kGroupChunks), kSmCount), 0);  // one round
  EXPECT_EQ(items_beside_prefixes(100, kWarps, prefix_items_of(512, kGroupChunks), kSmCount), 0);  // not even that
  EXPECT_EQ(items_beside_prefixes(kOfRound + 1, kWarps, prefix_items_of(528, kGroupChunks), kSmCount),
            0);  // all have prefix items
  // What AttentionOnGpuTest.PrefixesOnFewSms… has: a chunk group of 8 KV heads on 5 SMs, and 200 items.
  EXPECT_EQ(partition_prefixes(std::vector{kGroupChunks}, 8, 5).chunks_of_item, kGroupChunks);
  EXPECT_EQ(items_beside_prefixes(200, 6, prefix_items_of(8, kGroupChunks), 5), 20);
  EXPECT_EQ(items_beside_prefixes(200, 8, prefix_items_of(8, kGroupChunks), 5), 40);
}

// Sequences of one token after `chunks` shared chunks.
PrefixPlan plan_of(KvFormat format, int dim, int sequences, int chunks) {
  const KvGroup group{{0}, {8, dim, dim}, format, format, {}};
  std::vector<BlockId> table(static_cast<size_t>(chunks * kChunkTokens / kBlockOfTile));
  std::iota(table.begin(), table.end(), 0);
  std::vector<SequenceView> views;
  for (int i = 0; i < sequences; ++i) views.push_back({table.data(), chunks * kChunkTokens, i, 1});
  const std::vector<const BlockId*> tables(views.size(), table.data());
  AttentionBatch batch;
  batch.heads = 8;
  batch.sequences = views;
  batch.view.layout = make_layout(group, kBlockOfTile);
  PrefixRules rules;
  rules.most_rows = 1;
  rules.sm_count = 4;
  if (has_scale(format)) rules.cost = cost_of_dequantizing(batch.view.layout);
  return plan_prefixes(batch, tables, rules);
}

// What AttentionOnGpuTest.ChunkGroupsOfPrefixesOnFewSms… and .DequantizedPrefixesOnFewSms… have.
TEST(PrefixPlanTest, SmallOnesAreSharedOnFewSms) {
  for (const int dim : {64, 128}) {
    EXPECT_EQ(plan_of(KvFormat::kBF16, dim, 6, 15).partials.at(5).chunks, kGroupChunks);
    EXPECT_EQ(plan_of(KvFormat::kBF16, dim, 6, 15).items.size(), 2U * 8);
    EXPECT_EQ(plan_of(KvFormat::kBF16, dim, 6, 17).partials.at(5).chunks, 1);
    EXPECT_EQ(plan_of(KvFormat::kBF16, dim, 6, 17).partials.at(5).count, 17);
  }
  EXPECT_GT(plan_of(KvFormat::kE4M3, 128, 28, 6).items.size(), 0U);
  EXPECT_EQ(plan_of(KvFormat::kE4M3, 128, 16, 6).items.size(), 0U);  // too few
}

}  // namespace
}  // namespace kvasir::cuda
