// How batches are cut for attention on GPUs: what of it needs none.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "backend/cuda/attention_cut.h"
#include "backend/cuda/attention_plans.h"

namespace kvasir::cuda {
namespace {

// Single tokens of sequences of so many, the longest first, on a device of 132 processors.
std::vector<AttentionTile> tiles_of(std::vector<Position> tokens) {
  std::ranges::sort(tokens, std::greater<>());
  std::vector<AttentionTile> tiles;
  for (const Position count : tokens) tiles.push_back(make_tile({nullptr, count - 1, 0, 1}, {}, 0, 1));
  return tiles;
}
bool fit(const std::vector<Position>& tokens, int heads, int warps = 4) {
  return whole_rows(tiles_of(tokens), heads, 132).suit(warps, 132);
}
int parts(const std::vector<Position>& tokens, int heads) { return parts_of_rows(tiles_of(tokens), heads, 132); }
bool fit(int batch, Position context, int warps = 4) {
  return fit(std::vector<Position>(static_cast<size_t>(batch), context), 8, warps);
}

std::vector<Position> steps(int count, Position first, Position step) {
  std::vector<Position> out;
  for (int i = 0; i < count; ++i) out.push_back(first + i * step);
  return out;
}

TEST(WholeRowsTest, FitWhereAllProcessorsAreBusyToTheEnd) {
  EXPECT_TRUE(fit(64, 8192));
  EXPECT_TRUE(fit(32, 4096));
  EXPECT_TRUE(fit(128, 2048));
  EXPECT_TRUE(fit(16, 32768));
  EXPECT_FALSE(fit(40, 8192));  // 320 rows: two each, and three for some
  EXPECT_FALSE(fit(8, 8192));   // 64
}

TEST(WholeRowsTest, FitWhereWarpsHaveASpanEach) {
  EXPECT_FALSE(fit(32, 2048));  // two spans a processor
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
  // As in AttentionTest.ManyWholeRowsHaveTheBitsOfEachAlone.
  EXPECT_TRUE(fit(steps(33, 3100, 41), 8));
  std::vector<Position> with_threes = steps(31, 1030, 37);
  with_threes.insert(with_threes.end(), {1030 + 2 * 37 + 2, 1030 + 10 * 37 + 2});
  EXPECT_TRUE(fit(with_threes, 16));
  std::vector<Position> last_behind_longest(132, 2048);  // the last round is given from the first processor on
  last_behind_longest.insert(last_behind_longest.end(), 66, 4096);
  EXPECT_FALSE(fit(last_behind_longest, 1, 1));
  std::vector<Position> one_longer(64, 2048);
  one_longer[0] = 8192;
  EXPECT_FALSE(fit(one_longer, 8));
}

TEST(WholeRowsTest, FitOnFewProcessors) {
  // As in AttentionTest.WholeRowsOnFewProcessorsHaveTheBitsOfEachAlone: two rows are left, to be drawn, when each
  // warp of up to 16 has a span to begin with.
  std::vector<Position> with_three = steps(9, 4140, 37);
  with_three.push_back(4140 + 5 * 37 + 2);
  for (const WholeRows& rows :
       {whole_rows(tiles_of(steps(5, 4140, 41)), 4, 3), whole_rows(tiles_of(with_three), 2, 3)}) {
    EXPECT_TRUE(rows.suit(4, 3));
    EXPECT_TRUE(rows.suit(16, 3));
    EXPECT_EQ(rows.spans, 60);
    EXPECT_EQ(rows.sure_spans, 18);
  }
}

TEST(WholeRowsTest, AreNotOfRowsThatBeginElsewhere) {
  std::vector<AttentionTile> tiles(64, make_tile({nullptr, 8191, 0, 1}, {}, 0, 1));
  ASSERT_TRUE(whole_rows(tiles, 8, 132).balanced);
  tiles[7].first_split = 8;  // behind a prefix that it shares, or a window's begin
  EXPECT_FALSE(whole_rows(tiles, 8, 132).balanced);
  EXPECT_EQ(parts_of_rows(std::span(tiles).last(57).first(8), 8, 132), 0);
  tiles[7] = make_tile({nullptr, 8191, 0, 1}, {1000, 4}, 0, 1);
  EXPECT_FALSE(whole_rows(tiles, 8, 132).balanced);
  EXPECT_EQ(parts_of_rows(std::span(tiles).last(57).first(8), 8, 132), 0);
  EXPECT_EQ(parts_of_rows(std::span(tiles).first(7), 8, 132), 0);  // 112 of 132 processors
  EXPECT_EQ(parts_of_rows(std::span(tiles).last(8), 8, 132), 2);
}

// A decode step is cut as the one before it, until a sequence has another split.
TEST(AttentionPlanTest, CutsAlikeWhatHasAsManySplitsAndBeginsAlike) {
  const std::vector<BlockId> blocks{7, 8, 9};
  std::vector<SequenceView> sequences{{blocks.data(), 300, 0, 1}, {blocks.data() + 1, 20, 1, 1}};
  AttentionPlan plan;
  for (int i = 0; i < 2; ++i) {
    const SequenceView& sequence = sequences[static_cast<size_t>(i)];
    plan.tiles.push_back(make_tile(sequence, {}, 0, 1));
    plan.tiles.back().sequence = i;
    plan.first_blocks.push_back(sequence.blocks[0]);
  }
  EXPECT_TRUE(plan.cuts_alike(sequences));
  const auto cuts_alike_with = [&](size_t i, const SequenceView& other) {
    std::vector<SequenceView> changed = sequences;
    changed[i] = other;
    return plan.cuts_alike(changed);
  };
  EXPECT_TRUE(cuts_alike_with(1, {blocks.data() + 1, 255, 1, 1}));
  EXPECT_FALSE(cuts_alike_with(1, {blocks.data() + 1, 256, 1, 1}));
  EXPECT_FALSE(cuts_alike_with(0, {blocks.data(), 255, 0, 1}));
  EXPECT_FALSE(cuts_alike_with(1, {blocks.data() + 2, 20, 1, 1}));
  EXPECT_FALSE(cuts_alike_with(1, {blocks.data() + 1, 20, 1, 2}));
  EXPECT_FALSE(plan.cuts_alike(std::span(sequences).first(1)));
  plan.retention = {100, 0};
  EXPECT_FALSE(plan.cuts_alike(sequences));
  plan.retention = {};
  plan.prefixes.pieces.emplace_back();
  EXPECT_FALSE(plan.cuts_alike(sequences));
  EXPECT_FALSE(AttentionPlan{}.cuts_alike(sequences));
}

TEST(WholeSpansTest, SuitWhereAllProcessorsAreBusyAndSpansHaveSplits) {
  EXPECT_TRUE(whole_spans_suit({40 * 4, 40 * 32}, 8, 132));  // 40 x 8,192
  EXPECT_FALSE(whole_spans_suit({4, 32}, 8, 132));           // 32 spans for all of them
  EXPECT_FALSE(whole_spans_suit({20, 160}, 8, 132));         // 160: a second round of 28
  EXPECT_TRUE(whole_spans_suit({33, 33 * 4}, 8, 132));
  EXPECT_FALSE(whole_spans_suit({33, 33 * 4 - 1}, 8, 132));
  // As in AttentionTest.SpansOnFewProcessorsHaveTheBitsOfEachAlone: five rows of two spans, nine splits, on three
  // processors that rows would not keep busy to the end.
  const std::vector<AttentionTile> tiles = tiles_of(steps(5, 2101, 37));
  EXPECT_FALSE(whole_rows(tiles, 2, 3).suit(4, 3));
  EXPECT_EQ(parts_of_rows(tiles, 2, 3), 0);
  EXPECT_EQ(tiles.front().end_split + tiles.back().end_split, 18);
  EXPECT_TRUE(whole_spans_suit({5 * 2, 5 * 9}, 2, 3));
  EXPECT_FALSE(whole_spans_suit({2, 9}, 2, 3));  // one alone
}

TEST(PartsOfRowsTest, AreAsManyAsKeepAllProcessorsBusy) {
  EXPECT_EQ(parts(std::vector<Position>(8, 8192), 8), 2);
  EXPECT_EQ(parts(std::vector<Position>(8, 4096), 8), 2);
  EXPECT_EQ(parts(std::vector<Position>(8, 2048), 8), 0);    // one span
  EXPECT_EQ(parts(std::vector<Position>(6, 8192), 8), 0);    // 96 of 132 processors
  EXPECT_EQ(parts(std::vector<Position>(4, 8192), 8), 0);    // 64
  EXPECT_EQ(parts(std::vector<Position>(8, 6000), 8), 0);    // three spans
  EXPECT_EQ(parts(std::vector<Position>(8, 80000), 8), 0);   // more than one keeps
  EXPECT_EQ(parts(std::vector<Position>(16, 32768), 8), 0);  // whole ones
  EXPECT_EQ(parts({}, 8), 0);
}

TEST(PartsOfRowsTest, MayDifferALittle) {
  // As in AttentionTest.RowsInPartsHaveTheBitsOfEachAlone.
  std::vector<Position> with_three = steps(7, 7941, 30);
  with_three.push_back(with_three[4] + 2);
  EXPECT_EQ(parts(with_three, 8), 2);
  EXPECT_EQ(parts(steps(4, 3851, 40), 16), 2);
  EXPECT_EQ(parts(steps(8, 15901, 60), 8), 2);
  std::vector<Position> one_longer(8, 8192);
  one_longer[0] = 8193;  // a fifth span
  EXPECT_EQ(parts(one_longer, 8), 0);
}

TEST(WholeRowsTest, HaveTheSpansOfTheShortestInEveryRound) {
  const auto sure = [](const std::vector<Position>& tokens, int heads) {
    return whole_rows(tiles_of(tokens), heads, 132).sure_spans;
  };
  EXPECT_EQ(sure(std::vector<Position>(64, 8192), 8), 12);
  EXPECT_EQ(sure(std::vector<Position>(32, 4096), 8), 2);
  EXPECT_EQ(sure({8192, 2049, 8192, 8192}, 132), 8);
  EXPECT_EQ(sure({}, 8), 0);
}

}  // namespace
}  // namespace kvasir::cuda
