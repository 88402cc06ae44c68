// How batches are partitioned for attention on a GPU. Needs no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "backend/cuda/attention/partition.h"
#include "backend/cuda/attention/plan_cache.h"

namespace kvasir::cuda {
namespace {

// Tiles of single tokens, of sequences of so many tokens, the longest first; for a device of 132 SMs.
std::vector<AttentionTile> tiles_of(std::vector<Position> tokens) {
  std::ranges::sort(tokens, std::greater<>());
  std::vector<AttentionTile> tiles;
  for (const Position count : tokens) tiles.push_back(make_tile({nullptr, count - 1, 0, 1}, {}, 0, 1));
  return tiles;
}
bool fit(const std::vector<Position>& tokens, int heads, int warps = 4) {
  return whole_rows(tiles_of(tokens), heads, 132).fits(warps, 132);
}
int ctas(const std::vector<Position>& tokens, int heads) { return ctas_per_row(tiles_of(tokens), heads, 132); }
bool fit(int batch, Position context, int warps = 4) {
  return fit(std::vector<Position>(static_cast<size_t>(batch), context), 8, warps);
}

std::vector<Position> steps(int count, Position first, Position step) {
  std::vector<Position> out;
  for (int i = 0; i < count; ++i) out.push_back(first + i * step);
  return out;
}

TEST(WholeRowsTest, FitWhereAllSmsAreBusyToTheEnd) {
  EXPECT_TRUE(fit(64, 8192));
  EXPECT_TRUE(fit(32, 4096));
  EXPECT_TRUE(fit(128, 2048));
  EXPECT_TRUE(fit(16, 32768));
  EXPECT_FALSE(fit(40, 8192));  // 320 rows: two each, and three for some
  EXPECT_FALSE(fit(8, 8192));   // 64
}

TEST(WholeRowsTest, FitWhereWarpsHaveAChunkGroupEach) {
  EXPECT_FALSE(fit(32, 2048));  // two chunk groups an SM
  EXPECT_TRUE(fit(64, 2048));   // four
  EXPECT_TRUE(fit(64, 640));
  EXPECT_FALSE(fit(64, 640, 8));
  EXPECT_TRUE(fit(128, 640, 8));
  EXPECT_TRUE(fit(32, 4096));
  EXPECT_FALSE(fit(32, 4096, 8));
  EXPECT_TRUE(fit(64, 8192, 16));
  EXPECT_FALSE(fit(128, 2048, 16));
  EXPECT_FALSE(fit(std::vector<Position>{}, 8));
}

TEST(WholeRowsTest, FitInAnyLengthsThatAddUpAlike) {
  // As in AttentionOnGpuTest.ManyWholeRowsHaveTheBitsOfEachAlone.
  EXPECT_TRUE(fit(steps(33, 3100, 41), 8));
  std::vector<Position> with_threes = steps(31, 1030, 37);
  with_threes.insert(with_threes.end(), {1030 + 2 * 37 + 2, 1030 + 10 * 37 + 2});
  EXPECT_TRUE(fit(with_threes, 16));
  std::vector<Position> last_after_longest(132, 2048);  // the last round begins at the first SM again
  last_after_longest.insert(last_after_longest.end(), 66, 4096);
  EXPECT_FALSE(fit(last_after_longest, 1, 1));
  std::vector<Position> one_longer(64, 2048);
  one_longer[0] = 8192;
  EXPECT_FALSE(fit(one_longer, 8));
}

TEST(WholeRowsTest, FitOnFewSms) {
  // As in AttentionOnGpuTest.WholeRowsOnFewSmsHaveTheBitsOfEachAlone: two rows are left to be popped when each warp
  // of up to 16 has a chunk group to begin with.
  std::vector<Position> with_three = steps(9, 4140, 37);
  with_three.push_back(4140 + 5 * 37 + 2);
  for (const WholeRows& rows :
       {whole_rows(tiles_of(steps(5, 4140, 41)), 4, 3), whole_rows(tiles_of(with_three), 2, 3)}) {
    EXPECT_TRUE(rows.fits(4, 3));
    EXPECT_TRUE(rows.fits(16, 3));
    EXPECT_EQ(rows.chunk_groups, 60);
    EXPECT_EQ(rows.least_groups, 18);
  }
}

TEST(WholeRowsTest, AreNotOfRowsThatBeginElsewhere) {
  std::vector<AttentionTile> tiles(64, make_tile({nullptr, 8191, 0, 1}, {}, 0, 1));
  ASSERT_TRUE(whole_rows(tiles, 8, 132).balanced);
  tiles[7].first_chunk = 8;  // the tile shares a prefix, or a window begins there
  EXPECT_FALSE(whole_rows(tiles, 8, 132).balanced);
  EXPECT_EQ(ctas_per_row(std::span(tiles).last(57).first(8), 8, 132), 0);
  tiles[7] = make_tile({nullptr, 8191, 0, 1}, {1000, 4}, 0, 1);
  EXPECT_FALSE(whole_rows(tiles, 8, 132).balanced);
  EXPECT_EQ(ctas_per_row(std::span(tiles).last(57).first(8), 8, 132), 0);
  EXPECT_EQ(ctas_per_row(std::span(tiles).first(7), 8, 132), 0);  // 112 of 132 SMs
  EXPECT_EQ(ctas_per_row(std::span(tiles).last(8), 8, 132), 2);
}

// A decode step is partitioned as the one before it, until a sequence gets another chunk.
TEST(AttentionPlanTest, PartitionsAlikeWhatHasAsManyChunksAndBeginsAlike) {
  const std::vector<BlockId> blocks{7, 8, 9};
  std::vector<SequenceView> sequences{{blocks.data(), 300, 0, 1}, {blocks.data() + 1, 20, 1, 1}};
  AttentionPlan plan;
  for (int i = 0; i < 2; ++i) {
    const SequenceView& sequence = sequences[static_cast<size_t>(i)];
    plan.tiles.push_back(make_tile(sequence, {}, 0, 1));
    plan.tiles.back().sequence = i;
    plan.first_blocks.push_back(sequence.blocks[0]);
  }
  EXPECT_TRUE(plan.partitions_alike(sequences));
  const auto partitions_alike_with = [&](size_t i, const SequenceView& other) {
    std::vector<SequenceView> changed = sequences;
    changed[i] = other;
    return plan.partitions_alike(changed);
  };
  EXPECT_TRUE(partitions_alike_with(1, {blocks.data() + 1, 255, 1, 1}));
  EXPECT_FALSE(partitions_alike_with(1, {blocks.data() + 1, 256, 1, 1}));
  EXPECT_FALSE(partitions_alike_with(0, {blocks.data(), 255, 0, 1}));
  EXPECT_FALSE(partitions_alike_with(1, {blocks.data() + 2, 20, 1, 1}));
  EXPECT_FALSE(partitions_alike_with(1, {blocks.data() + 1, 20, 1, 2}));
  EXPECT_FALSE(plan.partitions_alike(std::span(sequences).first(1)));
  plan.retention = {100, 0};
  EXPECT_FALSE(plan.partitions_alike(sequences));
  plan.retention = {};
  plan.prefixes.items.emplace_back();
  EXPECT_FALSE(plan.partitions_alike(sequences));
  EXPECT_FALSE(AttentionPlan{}.partitions_alike(sequences));
}

TEST(WholeGroupsTest, FitWhereAllSmsAreBusyAndGroupsHaveChunks) {
  EXPECT_TRUE(whole_groups_fit({40 * 4, 40 * 32}, 8, 132));  // 40 x 8,192
  EXPECT_FALSE(whole_groups_fit({4, 32}, 8, 132));           // 32 chunk groups for all of them
  EXPECT_FALSE(whole_groups_fit({20, 160}, 8, 132));         // 160: a second round of 28
  EXPECT_TRUE(whole_groups_fit({33, 33 * 4}, 8, 132));
  EXPECT_FALSE(whole_groups_fit({33, 33 * 4 - 1}, 8, 132));
  // As in AttentionOnGpuTest.ChunkGroupsOnFewSmsHaveTheBitsOfEachAlone: five rows of two chunk groups, nine chunks,
  // on three SMs that rows would not keep busy to the end.
  const std::vector<AttentionTile> tiles = tiles_of(steps(5, 2101, 37));
  EXPECT_FALSE(whole_rows(tiles, 2, 3).fits(4, 3));
  EXPECT_EQ(ctas_per_row(tiles, 2, 3), 0);
  EXPECT_EQ(tiles.front().end_chunk + tiles.back().end_chunk, 18);
  EXPECT_TRUE(whole_groups_fit({5 * 2, 5 * 9}, 2, 3));
  EXPECT_FALSE(whole_groups_fit({2, 9}, 2, 3));  // one alone
}

TEST(CtasPerRowTest, AreAsManyAsKeepAllSmsBusy) {
  EXPECT_EQ(ctas(std::vector<Position>(8, 8192), 8), 2);
  EXPECT_EQ(ctas(std::vector<Position>(8, 4096), 8), 2);
  EXPECT_EQ(ctas(std::vector<Position>(8, 2048), 8), 0);    // one chunk group
  EXPECT_EQ(ctas(std::vector<Position>(6, 8192), 8), 0);    // 96 of 132 SMs
  EXPECT_EQ(ctas(std::vector<Position>(4, 8192), 8), 0);    // 64
  EXPECT_EQ(ctas(std::vector<Position>(8, 6000), 8), 0);    // three chunk groups
  EXPECT_EQ(ctas(std::vector<Position>(8, 80000), 8), 0);   // more than a CTA of the cluster holds
  EXPECT_EQ(ctas(std::vector<Position>(16, 32768), 8), 0);  // whole rows
  EXPECT_EQ(ctas({}, 8), 0);
}

TEST(CtasPerRowTest, MayServeRowsThatDifferALittle) {
  // As in AttentionOnGpuTest.RowsOfClustersHaveTheBitsOfEachAlone.
  std::vector<Position> with_three = steps(7, 7941, 30);
  with_three.push_back(with_three[4] + 2);
  EXPECT_EQ(ctas(with_three, 8), 2);
  EXPECT_EQ(ctas(steps(4, 3851, 40), 16), 2);
  EXPECT_EQ(ctas(steps(8, 15901, 60), 8), 2);
  std::vector<Position> one_longer(8, 8192);
  one_longer[0] = 8193;  // a fifth chunk group
  EXPECT_EQ(ctas(one_longer, 8), 0);
}

TEST(WholeRowsTest, HaveTheGroupsOfTheShortestInEveryRound) {
  const auto least = [](const std::vector<Position>& tokens, int heads) {
    return whole_rows(tiles_of(tokens), heads, 132).least_groups;
  };
  EXPECT_EQ(least(std::vector<Position>(64, 8192), 8), 12);
  EXPECT_EQ(least(std::vector<Position>(32, 4096), 8), 2);
  EXPECT_EQ(least({8192, 2049, 8192, 8192}, 132), 8);
  EXPECT_EQ(least({}, 8), 0);
}

}  // namespace
}  // namespace kvasir::cuda
