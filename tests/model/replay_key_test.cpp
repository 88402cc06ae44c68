// Batches that need the ops of the one before them, and those that do not.
#include <gtest/gtest.h>

#include <functional>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "model/replay_key.h"
#include "support/fixtures.h"
#include "support/repeating_backend.h"
#include "support/some_basis.h"

namespace kvasir::testing {
namespace {

class ReplayKeyTest : public ::testing::Test {
 protected:
  ReplayKeyTest() {
    config_.others = EngineConfig::OtherPolicies::kAny;
    model_->use_basis(some_basis(model_->config()));
  }

  static Request request(int prompt, const char* kv) {
    Request out;
    for (int t = 0; t < prompt; ++t) out.prompt.push_back(static_cast<TokenId>((5 * t + prompt) % 60));
    out.max_tokens = 24;
    out.sampling.temperature = 0;
    out.kv = parse_kv_policy(kv, "test");
    return out;
  }
  // Of a run of the requests, in which each has 24 tokens.
  std::int64_t repeats_of(const std::vector<Request>& requests) {
    Engine engine(backend_, *model_, config_);
    const std::int64_t before = backend_.repeats();
    for (const Request& one : requests) engine.submit(one, {});
    engine.run();
    return backend_.repeats() - before;
  }

  RepeatingBackend backend_{make_backend({"ref", 1, "auto"})};
  std::unique_ptr<Model> model_ = load_golden("gqa", backend_, 64);
  EngineConfig config_;
};

TEST_F(ReplayKeyTest, DecodeStepsRepeatTheOneBefore) {
  EXPECT_EQ(repeats_of({request(7, "f16")}),
            22);  // the first row is a prompt's last, and the second a first of its kind
  EXPECT_EQ(repeats_of({request(7, "f16"), request(9, "f16"), request(11, "int8")}), 22);
  EXPECT_EQ(repeats_of({request(7, "bf16, window=16")}), 22);
}

TEST_F(ReplayKeyTest, OpsThatChangeOnTheWayAreGivenEachTime) {
  EXPECT_EQ(repeats_of({request(7, "bf16, window=16, sinks=4")}), 0);  // rows look at sinks from some token on
  EXPECT_EQ(repeats_of({request(30, "f16, evict=h2o:20")}), 0);        // scores have other places each time
}

// The same number of rows and sequences as before, in a storage that was laid out anew.
TEST_F(ReplayKeyTest, AnotherStorageIsAnotherBatch) {
  const std::int64_t once = repeats_of({request(7, "f16")});
  EXPECT_EQ(repeats_of({request(7, "f16")}), once);
  EXPECT_EQ(repeats_of({request(7, "int4")}), once);
}

// Rows that are kept shorter are multiplied by what the basis says now.
TEST_F(ReplayKeyTest, AnotherBasisIsAnotherBatch) {
  Engine engine(backend_, *model_, config_);
  engine.submit(request(7, "f16, rank=k:9/v:12"), {});
  for (int step = 0; step < 8; ++step) engine.step();
  const std::int64_t before = backend_.repeats();
  EXPECT_GT(before, 0);
  model_->use_basis(some_basis(model_->config(), 2));
  engine.step();
  EXPECT_EQ(backend_.repeats(), before);
  engine.step();
  EXPECT_EQ(backend_.repeats(), before + 1);
}

TEST_F(ReplayKeyTest, AGroupThatIsLaidOutAnewIsAnotherBatch) {
  const std::vector<KvGroup> groups = kv_groups(model_->config(), uniform_policy(KvFormat::kF16));
  KvStorage storage(backend_, {4, make_layout(groups[0], 16).block_bytes()}, 16);
  storage.set_group(0, groups[0]);
  Batch batch;
  batch.tokens = {1};
  batch.sequences = {{{nullptr, 4, 0, 1}}};
  ReplayKey last;
  last.remember(batch, storage, 3, {});
  EXPECT_TRUE(last.matches(batch, storage));
  storage.set_group(0, groups[0]);
  EXPECT_FALSE(last.matches(batch, storage));
}

TEST_F(ReplayKeyTest, WantsTheSameRowsSequencesAndLogits) {
  Engine engine(backend_, *model_, config_);
  const KvStorage& storage = engine.storage();
  Batch batch;
  batch.tokens = {1, 2};
  batch.positions = {4, 5};
  batch.sequences = {{{nullptr, 4, 0, 1}, {nullptr, 5, 1, 1}}};
  batch.logit_rows = {0, 1};
  ReplayKey last;
  EXPECT_FALSE(last.matches(batch, storage));
  last.remember(batch, storage, 3, {});
  EXPECT_TRUE(last.matches(batch, storage));
  EXPECT_EQ(last.id(), 3U);
  const auto expect_another = [&](const std::function<void(Batch&)>& change) {
    Batch other = batch;
    change(other);
    EXPECT_FALSE(last.matches(other, storage));
  };
  expect_another([](Batch& other) { other.tokens.push_back(3); });
  expect_another([](Batch& other) { other.sequences[0].pop_back(); });
  expect_another([](Batch& other) { other.sequences.insert(other.sequences.begin(), {{}}); });
  expect_another([](Batch& other) { other.logit_rows = {1}; });
  expect_another([](Batch& other) { other.watches = {{AttentionWatch{}}}; });
  Engine second(backend_, *model_, config_);
  EXPECT_FALSE(last.matches(batch, second.storage()));
  last.remember(batch, storage, kNoBatch, {});
  EXPECT_FALSE(last.matches(batch, storage));
  Batch watched = batch;
  watched.watches = {{AttentionWatch{}}};
  last.remember(watched, storage, 4, {});
  EXPECT_FALSE(last.matches(batch, storage));
}

}  // namespace
}  // namespace kvasir::testing
