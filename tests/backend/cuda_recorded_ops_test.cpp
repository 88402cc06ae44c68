// The recorded ops of a batch: when two consecutive batches are equal. Needs no device.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "backend/cuda/batch_ops.h"
#include "backend/cuda/graph/replayable_batch.h"

namespace kvasir::cuda {
namespace {

AddOp add_of(int rows) { return {{nullptr, rows, 4, 4}, {nullptr, rows, 4, 4}}; }

AttentionOp attention_of(int layer, int heads) {
  AttentionOp op;
  op.batch.view.layer = layer;
  op.batch.heads = heads;
  return op;
}

std::uint64_t version_of(RecordedOps& ops, const std::vector<BatchOp>& batch) {
  ops.begin();
  for (const BatchOp& op : batch) ops.add(op);
  ops.end();
  EXPECT_EQ(ops.list(), batch);
  return ops.version();
}

TEST(RecordedOpsTest, HaveAVersionAsLongAsTheyAreTheSame) {
  RecordedOps ops;
  const std::vector<BatchOp> first{add_of(1), add_of(2), add_of(3)};
  const std::uint64_t version = version_of(ops, first);
  EXPECT_EQ(version_of(ops, first), version);
  for (const std::vector<BatchOp>& other :
       std::vector<std::vector<BatchOp>>{{add_of(1), add_of(5), add_of(3)},             // another parameter
                                         {add_of(1), add_of(5)},                        // one less
                                         {add_of(1), add_of(5), add_of(3), add_of(3)},  // and two more
                                         {add_of(1), add_of(5), add_of(3), attention_of(0, 8)},
                                         {},
                                         first}) {
    const std::uint64_t before = ops.version();
    const std::uint64_t changed = version_of(ops, other);
    EXPECT_NE(changed, before);
    EXPECT_EQ(version_of(ops, other), changed);
  }
  EXPECT_NE(ops.version(), version);  // others were between
}

TEST(RecordedOpsTest, ABatchThatWasNeverEndedLeavesNoTrace) {
  RecordedOps ops;
  const std::vector<BatchOp> batch{add_of(1), add_of(2)};
  const std::uint64_t version = version_of(ops, batch);
  ops.begin();
  ops.add(add_of(7));
  EXPECT_NE(version_of(ops, batch), version);
  ops.begin();
  ops.add(add_of(1));
  const std::uint64_t again = ops.version();
  EXPECT_EQ(version_of(ops, batch), again);  // what it had was the same
  ops.begin();
  ops.add(add_of(7));
  EXPECT_NE(version_of(ops, {add_of(7), add_of(2)}), again);  // nothing differs from what lies there now
}

// A batch that comes again brings another end.
TEST(RecordedOpsTest, BeginAgainWithWhatTheyWere) {
  RecordedOps ops;
  const std::vector<BatchOp> batch{add_of(1), attention_of(0, 8), add_of(3)};
  const std::uint64_t version = version_of(ops, batch);
  ops.begin_again(2);
  ops.add(add_of(3));
  ops.end();
  EXPECT_EQ(ops.version(), version);
  EXPECT_EQ(ops.list(), batch);
  ops.begin_again(2);
  EXPECT_EQ(ops.count(), 2U);
  ops.add(add_of(4));
  ops.end();
  EXPECT_NE(ops.version(), version);
  EXPECT_EQ(ops.list(), (std::vector<BatchOp>{add_of(1), attention_of(0, 8), add_of(4)}));
  EXPECT_EQ(ops.attention().size(), 1U);
  const std::uint64_t longer = ops.version();
  ops.begin_again(2);
  ops.end();
  EXPECT_NE(ops.version(), longer);
  EXPECT_EQ(ops.list().size(), 2U);
}

TEST(ReplayableBatchTest, IsTheLastOneIfAllItsUploadsAreKnown) {
  const std::vector<std::vector<SequenceView>> groups{std::vector<SequenceView>(2), {}, std::vector<SequenceView>(1)};
  const std::vector<std::vector<SequenceView>> elsewhere = groups;
  const std::array<TokenId, 2> tokens{};
  const std::array<std::int32_t, 2> rope_rows{};
  ReplayableBatch batch;
  EXPECT_FALSE(batch.is(kNoBatch, {}));
  batch.begin(groups);
  batch.note_tokens(tokens.data());
  batch.note_rope_rows(rope_rows.data());
  const BatchId id = batch.end(12);
  EXPECT_NE(id, kNoBatch);
  EXPECT_TRUE(batch.is(id, groups));
  EXPECT_EQ(batch.ops(), 12U);
  EXPECT_FALSE(batch.is(id, elsewhere));
  EXPECT_FALSE(batch.is(id, std::span(groups).first(2)));
  EXPECT_TRUE(batch.looks_at(tokens.data(), rope_rows.data()));
  EXPECT_FALSE(batch.looks_at(tokens.data() + 1, rope_rows.data()));
  EXPECT_FALSE(batch.looks_at(tokens.data(), rope_rows.data() + 1));

  batch.begin(groups);
  EXPECT_FALSE(batch.is(id, groups));  // another one is between
  batch.note_tokens(tokens.data());
  EXPECT_EQ(batch.end(12), kNoBatch);
  batch.begin(groups);
  batch.note_tokens(tokens.data());
  batch.note_rope_rows(rope_rows.data());
  batch.note_other();
  EXPECT_EQ(batch.end(12), kNoBatch);
  EXPECT_FALSE(batch.is(kNoBatch, groups));
  batch.begin(elsewhere);
  batch.note_rope_rows(rope_rows.data());
  batch.note_tokens(tokens.data());
  EXPECT_TRUE(batch.is(batch.end(3), elsewhere));
}

TEST(RecordedOpsTest, AttentionIsToldOnceForNeighboursThatAreAlike) {
  RecordedOps ops;
  version_of(ops, {attention_of(0, 8), add_of(1), attention_of(1, 8), attention_of(2, 4), attention_of(3, 8)});
  ASSERT_EQ(ops.attention().size(), 3U);
  EXPECT_EQ(ops.attention()[0]->view.layer, 0);
  EXPECT_EQ(ops.attention()[1]->view.layer, 2);
  EXPECT_EQ(ops.attention()[2]->view.layer, 3);
  version_of(ops, {attention_of(5, 8)});
  ASSERT_EQ(ops.attention().size(), 1U);
  EXPECT_EQ(ops.attention()[0]->view.layer, 5);
  AttentionOp capped = attention_of(6, 8);
  capped.batch.rule.softcap = 30.0F;  // another kernel
  version_of(ops, {attention_of(5, 8), capped, capped});
  ASSERT_EQ(ops.attention().size(), 2U);
  EXPECT_EQ(ops.attention()[1]->view.layer, 6);
}

}  // namespace
}  // namespace kvasir::cuda
