// Paged attention and kv_write against ref: formats, groupings, block sizes, retentions, ragged batches.
#include "backend/attention_scene.h"
#include "backend/cpu/attention_plan.h"
#include "layout/codec.h"

namespace kvasir::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Forms, AttentionTest, ::testing::ValuesIn(all_forms()), form_name);
INSTANTIATE_TEST_SUITE_P(Forms, AttentionOnGpuTest, ::testing::ValuesIn(gpu_forms()), form_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionOnGpuTest);

// Every format for both, and each for K or V alone.
std::vector<KvPolicy> all_formats() {
  std::vector<KvPolicy> out;
  for (const KvFormat format : kAllKvFormats) out.push_back(both(format));
  for (size_t i = 0; i < kAllKvFormats.size(); ++i) {
    out.push_back({kAllKvFormats[i], kAllKvFormats[(i + 3) % kAllKvFormats.size()], {}});
  }
  return out;
}

const std::vector<Span> kRagged{{0, 1}, {0, 19}, {40, 1}, {255, 3}, {300, 1}, {10, 50}};

TEST_P(AttentionTest, EqualsRefOverFormatsGroupsAndHeads) {
  for (const KvPolicy& formats : all_formats()) {
    std::vector<Case> cases{{6, 2, 64, 64, formats, 16, {}}, {3, 1, 6, 10, formats, 16, {}}};
    if (formats.k_format == formats.v_format) {
      cases.push_back({4, 4, 16, 16, formats, 16, {}});
      cases.push_back({4, 1, 20, 20, formats, 16, {}});
      cases.push_back({8, 1, 128, 128, formats, 32, {}});
    }
    for (const Case& c : cases) {
      const std::vector<float> expected = Scene(*ref_, c, kRagged).attend();
      EXPECT_LT(relative_error(Scene(*tested_, c, kRagged).attend(), expected), tolerance(formats))
          << c.heads << "/" << c.kv_heads << " x " << c.k_dim << " " << to_text(formats);
    }
  }
}

// Two rows of one head that change places give the same, but for the order of sums; one that is lost does not.
TEST_P(AttentionTest, RowsAreReadWhereTheyWereMoved) {
  for (const KvFormat format : kAllKvFormats) {
    for (Backend* backend : {ref_.get(), tested_.get()}) {
      Scene scene(*backend, {6, 2, 20, 20, both(format), 16, {}}, {{39, 1}});  // of its third block eight are free
      const std::vector<float> before = scene.attend();
      scene.move(0, {{1, 5, 45}, {1, 20, 5}, {1, 45, 20}});
      EXPECT_LT(relative_error(scene.attend(), before), tolerance(both(format))) << format_name(format);
      scene.move(0, {{1, 20, 5}});
      EXPECT_GT(relative_error(scene.attend(), before), 1e-3) << format_name(format);
    }
  }
}

TEST_P(AttentionTest, WatchesWhatRefWatches) {
  using Note = AttentionWatch::Note;
  for (const KvPolicy& formats : all_formats()) {
    for (const int block : {16, 3}) {
      const Case c{6, 2, 20, 20, formats, block, {}};
      Scene of_ref(*ref_, c, kRagged);
      Scene of_tested(*tested_, c, kRagged);
      for (const size_t sequence : {size_t{1}, size_t{3}, size_t{5}}) {
        const int first = kRagged[sequence].rows / 2;
        const std::vector<float> expected = of_ref.watch(sequence, first, Note::kShares);
        const std::vector<float> got = of_tested.watch(sequence, first, Note::kShares);
        EXPECT_LT(relative_error(got, expected), on_gpu(GetParam()) ? tolerance(formats) : 1e-5) << to_text(formats);
        EXPECT_NEAR(std::accumulate(got.begin(), got.end(), 0.0), 6.0 * (kRagged[sequence].rows - first), 1e-3);
        const std::vector<float> last = of_ref.watch(sequence, first, Note::kLastQuery);
        const std::vector<float> noted = of_tested.watch(sequence, first, Note::kLastQuery);
        std::int64_t agree = 0;  // a share may be equal to all but the last bit
        for (size_t i = 0; i < last.size(); ++i) agree += noted[i] == last[i];
        EXPECT_GE(agree, std::ssize(last) - (on_gpu(GetParam()) ? std::ssize(last) / 20 : 1));
        EXPECT_EQ(noted.back(), static_cast<float>(1000 + kRagged[sequence].rows - 1));
      }
    }
  }
}

TEST_P(AttentionTest, WhatIsWatchedDoesNotDependOnChunks) {
  for (const KvFormat format : {KvFormat::kF16, KvFormat::kInt4}) {
    for (Backend* backend : {ref_.get(), tested_.get()}) {
      Scene scene(*backend, {6, 2, 20, 20, both(format), 16, {}}, kRagged);
      for (const auto note : {AttentionWatch::Note::kShares, AttentionWatch::Note::kLastQuery}) {
        const std::vector<float> whole = scene.watch(5, 3, note);
        for (const int chunk : {1, 7, 16}) EXPECT_EQ(scene.watch(5, 3, note, chunk), whole) << chunk;
      }
    }
  }
}

TEST_P(AttentionTest, WritesTheBytesThatRefWrites) {
  for (const KvPolicy& formats : all_formats()) {
    for (const int block_tokens : {3, 16}) {
      const Case c{4, 2, 20, 10, formats, block_tokens, {}};
      EXPECT_EQ(Scene(*tested_, c, {{0, 19}, {5, 9}}).bytes(), Scene(*ref_, c, {{0, 19}, {5, 9}}).bytes())
          << to_text(formats);
    }
  }
}

// Slots that were never written, and blocks that a table does not have, may hold anything: here what reads as NaN.
TEST_P(AttentionTest, WhatWasNeverWrittenIsNeverSeen) {
  for (const KvPolicy& formats : all_formats()) {
    for (const Retention& retention : std::vector<Retention>{{}, {20, 3}}) {
      for (const int block_tokens : {5, 16}) {
        const Case c{4, 2, 20, 24, formats, block_tokens, retention};
        const std::vector<Span> spans{{0, 3}, {300, 2}};
        const std::vector<float> clean = Scene(*tested_, c, spans).attend();
        EXPECT_EQ(Scene(*tested_, c, spans, 0, {}, std::byte{0xff}).attend(), clean) << to_text(formats);
      }
    }
  }
  // Blocks and heads of usual sizes, and rows enough for a prompt.
  for (const KvFormat format : formats_with_kernels(GetParam())) {
    for (const Retention& retention : std::vector<Retention>{{}, {20, 3}}) {
      for (const int dim : on_gpu(GetParam()) ? std::vector{64, 128} : std::vector{64}) {
        const Case c{4, 2, dim, dim, both(format), 16, retention, 128};
        const std::vector<Span> spans{{0, 3}, {300, 2}, {5, 77}};
        const std::vector<float> clean = Scene(*tested_, c, spans).attend();
        EXPECT_EQ(Scene(*tested_, c, spans, 0, {}, std::byte{0xff}).attend(), clean) << format_name(format);
      }
    }
  }
}

TEST_P(AttentionTest, EqualsRefOverBlockSizes) {
  for (const KvFormat format :
       {KvFormat::kBF16, KvFormat::kInt8, KvFormat::kInt4, KvFormat::kInt2, KvFormat::kE4M3, KvFormat::kTop50}) {
    for (const int block_tokens : {1, 2, 4, 5, 16, 24, 48, 512}) {
      const Case c{4, 2, 20, 16, both(format), block_tokens, {}};
      EXPECT_LT(relative_error(Scene(*tested_, c, kRagged).attend(), Scene(*ref_, c, kRagged).attend()),
                tolerance(both(format)))
          << block_tokens << " " << format_name(format);
    }
  }
}

TEST_P(AttentionTest, EqualsRefOverWindowsAndSinks) {
  for (const Retention& retention :
       std::vector<Retention>{{1, 0}, {7, 0}, {16, 4}, {33, 1}, {64, 20}, {257, 0}, {100, 300}, {1000, 2}}) {
    for (const KvFormat format :
         {KvFormat::kF16, KvFormat::kInt8, KvFormat::kInt4, KvFormat::kE5M2, KvFormat::kTop25}) {
      const Case c{4, 2, 16, 16, both(format), 16, retention};
      EXPECT_LT(relative_error(Scene(*tested_, c, kRagged).attend(), Scene(*ref_, c, kRagged).attend()),
                tolerance(both(format)))
          << retention.window << "+" << retention.sinks << " " << format_name(format);
    }
  }
}

TEST_P(AttentionTest, TwoGroupsReadEachKeyOnceAndMergeToTheWhole) {
  const std::vector<Span> spans{{0, 1}, {0, 19}, {40, 1}, {255, 3}, {300, 1}, {10, 50}, {900, 1}, {500, 40}};
  for (const Retention& recent : std::vector<Retention>{{1, 0}, {7, 0}, {16, 4}, {64, 20}, {257, 0}, {300, 270}}) {
    for (const Retention& kept : std::vector<Retention>{{}, {400, 0}}) {
      if (!kept.full() && recent.sinks > 0) continue;  // such a layer has none
      const Case c{6, 2, 64, 20, both(KvFormat::kF16), 16, kept};
      const std::vector<float> whole = Scene(*ref_, c, spans).attend();
      EXPECT_LT(relative_error(Scene(*ref_, c, spans).attend_in_two(recent), whole), 5e-6) << recent.window;
      EXPECT_LT(relative_error(Scene(*tested_, c, spans).attend_in_two(recent), whole), tolerance(c.formats))
          << recent.window << "+" << recent.sinks << " of " << kept.window;
    }
  }
}

TEST_P(AttentionTest, AnInfiniteValueStaysWithTheRowsThatSeeIt) {
  // A value too large for f16 becomes infinite; rows before it must not become NaN for having shared its tile.
  constexpr int kHeads = 4;
  struct Shape {
    int dim, rows, infinite;
  };
  for (const auto [dim, rows, infinite] :
       {Shape{16, 16, 9}, Shape{64, 20, 10}, Shape{64, 150, 70}, Shape{128, 150, 127}, Shape{128, 300, 271}}) {
    const KvGroup group{{0}, {kHeads, dim, dim}, KvFormat::kF16, KvFormat::kF16, {}};
    KvStorage storage(*tested_, {20, make_layout(group, 16).block_bytes()}, 16);
    storage.set_group(0, group);
    std::vector<BlockId> blocks(20);
    std::iota(blocks.begin(), blocks.end(), 0);
    const std::vector<SequenceView> sequences{{blocks.data(), 0, 0, rows}};
    std::vector<SequenceView> in_threes;  // a tile of a GPU has rows that see the value and rows that do not
    for (int row = 0; row < rows; row += 3) {
      in_threes.push_back({blocks.data(), row, row, std::min(3, rows - row)});
    }
    const OwnedMatrix k(rows, kHeads * dim, 1);
    OwnedMatrix v(rows, kHeads * dim, 2);
    v.view.row(infinite)[3] = 1e9F;
    tested_->run(KvWriteOp{k.view, v.view, storage.view(0, 0), sequences});
    const OwnedMatrix q(rows, kHeads * dim, 3);
    for (const auto& batch : {sequences, in_threes}) {
      OwnedMatrix out(rows, kHeads * dim);
      tested_->run(AttentionOp{{q.view, storage.view(0, 0), batch, kHeads, {0.25F}}, out.view});
      for (int row = 0; row < rows; ++row) {
        EXPECT_EQ(std::isfinite(out.view.row(row)[3]), row < infinite) << row;
        EXPECT_TRUE(std::isfinite(out.view.row(row)[4])) << row;
      }
    }
  }
}

TEST(AttentionPlanTest, SequencesWithTheSameBlocksReadASplitTogether) {
  const KvGroup group{{0}, {2, 16, 16}, KvFormat::kF16, KvFormat::kF16, {}};
  AttentionBatch batch;
  batch.heads = 8;  // four a KV head: eight sequences of one row are a unit
  batch.view.layout = make_layout(group, 16);
  std::vector<std::vector<BlockId>> tables(20);
  std::vector<SequenceView> sequences;
  for (size_t s = 0; s < tables.size(); ++s) {
    for (int b = 0; b < 40; ++b) tables[s].push_back(s < 17 && b < 32 ? b : static_cast<BlockId>(1000 * s) + b);
    sequences.push_back({tables[s].data(), 600, static_cast<int>(s), 1});
  }
  batch.sequences = sequences;
  cpu::AttentionPlan plan;
  plan.build(batch);
  EXPECT_EQ(plan.spread_tiles().size(), 17U);
  EXPECT_EQ(plan.splits(), (std::vector<std::int64_t>{0, 1, 2}));
  std::vector<std::vector<int>> sizes(3);
  for (const cpu::SplitUnit& unit : plan.units()) sizes[static_cast<size_t>(unit.split)].push_back(unit.count);
  for (auto& counts : sizes) std::ranges::sort(counts, std::greater<>());
  EXPECT_EQ(sizes[0], (std::vector<int>{8, 8, 1, 1, 1, 1}));  // 17 that share, three that do not
  EXPECT_EQ(sizes[1], sizes[0]);
  EXPECT_EQ(sizes[2], std::vector<int>(20, 1));  // the split that is still being written
  EXPECT_EQ(plan.order().size(), 60U);
}

// Before its end a split holds tokens that some of them must not see, and blocks that not all of them have.
TEST(AttentionPlanTest, ASplitIsSharedOnlyByThoseWhollyBehindIt) {
  const KvGroup group{{0}, {2, 16, 16}, KvFormat::kF16, KvFormat::kF16, {}};
  AttentionBatch batch;
  batch.heads = 8;
  batch.view.layout = make_layout(group, 16);
  std::vector<BlockId> table(32);
  std::iota(table.begin(), table.end(), 0);
  for (const Position start : {200, 255, 256, 300}) {
    const std::vector<SequenceView> sequences{{table.data(), start, 0, 1}, {table.data(), start, 1, 1}};
    batch.sequences = sequences;
    cpu::AttentionPlan plan;
    plan.build(batch);
    EXPECT_EQ(plan.units().front().count, start < 256 ? 1 : 2) << start;
    EXPECT_EQ(plan.spread_tiles().size(), start < 256 ? 0U : 2U) << start;
  }
}

}  // namespace
}  // namespace kvasir::testing
