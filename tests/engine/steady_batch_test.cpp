// Sequences that decode on together: their listeners are notified of every token at once, and who asks for the
// sequences or the cache finds all of that there.
#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "engine/sampling_backend.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class SteadyBatchTest : public ::testing::Test {
 protected:
  explicit SteadyBatchTest(const EngineConfig& config = {}) : engine_(backend_, *model_, config) {}

  static Request request(int prompt, std::int64_t tokens) {
    Request out;
    for (int t = 0; t < prompt; ++t) out.prompt.push_back(static_cast<TokenId>((7 * t + prompt) % 60));
    out.max_tokens = tokens;
    out.sampling.temperature = 0;
    return out;
  }
  // Sequences have what their listeners were notified of, and their leases all but the last token.
  void expect_complete(const std::vector<Heard>& heard) {
    size_t i = 0;
    engine_.scheduler().each([&](const Sequence& sequence) {
      std::vector<TokenId> known = sequence.request.prompt;
      known.insert(known.end(), heard[i].tokens.begin(), heard[i].tokens.end());
      EXPECT_EQ(sequence.tokens, known);
      EXPECT_EQ(sequence.num_uncomputed_tokens(), 1);
      EXPECT_TRUE(std::ranges::equal(sequence.lease.tokens(), std::span(known).first(known.size() - 1)));
      ++i;
    });
    EXPECT_EQ(i, heard.size());
    EXPECT_EQ(engine_.cache().problem(), std::nullopt);
  }

  SamplingBackend backend_{make_backend({"cpu", 1, "auto"})};
  std::unique_ptr<Model> model_ = load_golden("gqa", backend_, 64);
  Engine engine_;
};

EngineConfig blocks_of(int tokens) {
  EngineConfig config;
  config.block_tokens = tokens;
  return config;
}

class SteadyBlocksTest : public SteadyBatchTest, public ::testing::WithParamInterface<int> {
 protected:
  SteadyBlocksTest() : SteadyBatchTest(blocks_of(GetParam())) {}
};

INSTANTIATE_TEST_SUITE_P(Tokens, SteadyBlocksTest, ::testing::Values(16, 64));

TEST_P(SteadyBlocksTest, WhoAsksFindsAllThatListenersKnow) {
  std::vector<Heard> heard(3);
  for (size_t i = 0; i < heard.size(); ++i) engine_.submit(request(5 + 3 * static_cast<int>(i), 80), into(heard[i]));
  for (int step = 0; step < 60; ++step) {
    engine_.step();
    if (step % 25 == 24 || step % 11 == 10) expect_complete(heard);
  }
  EXPECT_GT(engine_.step_counts().ahead, 50);
  EXPECT_GT(engine_.step_counts().steady, 40);  // who asks does not end it
}

// The cache is given tokens a block at a time, or some twenty where blocks are larger: listeners get each at once.
TEST_P(SteadyBlocksTest, CommitsLater) {
  Heard heard;
  engine_.submit(request(5, 80), into(heard));
  const Sequence* sequence = nullptr;
  engine_.scheduler().each([&sequence](const Sequence& one) { sequence = &one; });
  std::int64_t most = 0;
  std::int64_t commits = 0;
  for (int step = 0; step < 60; ++step) {
    engine_.step();
    const std::int64_t behind = std::ssize(heard.tokens) - sequence->num_output_tokens();  // nobody asked for it
    commits += behind == 0;
    most = std::max(most, behind);
  }
  EXPECT_GE(most, kDefaultBlockTokens / 2);
  EXPECT_LT(most, static_cast<std::int64_t>(DecodeSlot::kMostPending));
  EXPECT_LT(commits, 10);
}

TEST_F(SteadyBatchTest, NotifiesWithEachTokenOfWhatItTook) {
  std::vector<std::pair<int, std::int64_t>> told;
  engine_.submit(request(5, 40), [&told](const Update& update) {
    if (update.token >= 0) told.emplace_back(update.record->steps, update.record->computed_tokens);
  });
  engine_.run();
  ASSERT_EQ(told.size(), 40U);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(told[static_cast<size_t>(i)].first, i + 1);
    EXPECT_EQ(told[static_cast<size_t>(i)].second, i + 5);
  }
}

// Each block is found by who comes next with its tokens, although it was given them all at once.
TEST_F(SteadyBatchTest, PublishesItsBlocks) {
  Heard first;
  engine_.submit(request(5, 60), into(first));
  engine_.run();
  Request again = request(5, 1);
  again.prompt.insert(again.prompt.end(), first.tokens.begin(), first.tokens.end());
  Heard second;
  engine_.submit(again, into(second));
  engine_.run();
  EXPECT_EQ(second.record.reuse.reused_tokens, 64);  // the last token's row was never computed
}

// All but the one who stops go on, with all their tokens.
TEST_F(SteadyBatchTest, WhoeverStopsLeavesTheOthersComplete) {
  std::vector<Heard> alone(2);
  for (size_t i = 0; i < 2; ++i) {
    Engine other(backend_, *model_, {});
    other.submit(request(7 + 4 * static_cast<int>(i), 60), into(alone[i]));
    other.run();
  }
  for (const size_t at : {1U, 2U, 3U, 13U, 31U}) {
    Engine engine(backend_, *model_, {});
    std::vector<Heard> heard(2);
    Request stopping = request(7, 60);
    stopping.stop_tokens = {alone[0].tokens[at]};
    const auto first = std::ranges::find(alone[0].tokens, alone[0].tokens[at]);
    engine.submit(stopping, into(heard[0]));
    engine.submit(request(11, 60), into(heard[1]));
    engine.run();
    EXPECT_EQ(heard[0].finish, FinishReason::kStop);
    EXPECT_EQ(heard[0].tokens, std::vector<TokenId>(alone[0].tokens.begin(), first)) << at;
    EXPECT_EQ(heard[1].finish, FinishReason::kLength);
    EXPECT_EQ(heard[1].tokens, alone[1].tokens) << at;
    EXPECT_EQ(engine.cache().problem(), std::nullopt);
    // What it left in the cache are its tokens, in their order.
    Request again = request(11, 1);
    again.prompt.insert(again.prompt.end(), alone[1].tokens.begin(), alone[1].tokens.end());
    Heard found;
    engine.submit(again, into(found));
    engine.run();
    EXPECT_EQ(found.record.reuse.reused_tokens, 64) << at;
  }
}

TEST_F(SteadyBatchTest, LogitsThatAreNoNumbersEndTheRequest) {
  std::vector<Heard> heard(2);
  for (size_t i = 0; i < heard.size(); ++i) engine_.submit(request(5 + 3 * static_cast<int>(i), 80), into(heard[i]));
  for (int step = 0; step < 20; ++step) engine_.step();
  ASSERT_GT(engine_.step_counts().steady, 0);
  backend_.broken_ = true;
  for (int step = 0; step < 3; ++step) engine_.step();  // the next one is in flight already
  EXPECT_TRUE(engine_.idle());
  for (const Heard& one : heard) {
    EXPECT_EQ(one.finish, FinishReason::kFailed);
    EXPECT_EQ(one.ends, 1);
    EXPECT_NE(one.record.failure.find("not numbers"), std::string::npos);
  }
}

// Tokens count for a tenant's turn as they are computed, and not when they are committed.
TEST_F(SteadyBatchTest, CountsForTurnsWhatWasComputed) {
  EngineConfig config;
  config.scheduler.max_sequences = 4;
  Engine engine(backend_, *model_, config);
  std::vector<std::uint32_t> answered;
  const auto submit = [&](std::uint32_t tenant, int prompt, std::int64_t tokens, OnUpdate hear = {}) {
    Request one = request(prompt, tokens);
    one.tenant.id = tenant;
    engine.submit(one, std::move(hear));
  };
  submit(1, 40, 50);                                 // 40 tokens at first, …
  for (int i = 0; i < 3; ++i) submit(2, 2 + i, 60);  // … and 9: but three with every step
  for (int step = 0; step < 35; ++step) engine.step();
  for (const std::uint32_t tenant : {2U, 1U}) {
    submit(tenant, 5, 1, [&answered, tenant](const Update&) { answered.push_back(tenant); });
  }
  engine.run();
  EXPECT_EQ(answered, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_GT(engine.step_counts().ahead, 30);
}

// A breakpoint inside of a block is kept as soon as that is full, though the sequence runs on.
TEST_F(SteadyBatchTest, KeepsWhatBreakpointsMark) {
  Heard heard;
  Request marked = request(20, 80);
  marked.breakpoints = {{20, std::chrono::seconds(300)}};
  engine_.submit(marked, into(heard));
  for (int step = 0; step < 11; ++step) engine_.step();
  EXPECT_EQ(heard.record.pinned_tokens, 0);
  for (int step = 0; step < 4; ++step) engine_.step();
  EXPECT_EQ(heard.record.pinned_tokens, 20);
  const std::int64_t before = engine_.step_counts().steady;
  for (int step = 0; step < 10; ++step) engine_.step();
  EXPECT_GT(engine_.step_counts().steady, before);  // nothing keeps it from a steady batch now
}

// Who has no room is looked at from time to time, though nobody ends.
TEST_F(SteadyBatchTest, LetsTheSchedulerLookAtThoseWhoWait) {
  EngineConfig config;
  config.kv_bytes = static_cast<std::uint64_t>(engine_.storage().layout(0).block_bytes()) * 8;
  Engine engine(backend_, *model_, config);
  Heard runs;
  Heard waits;
  engine.submit(request(20, 80), into(runs));
  for (int step = 0; step < 3; ++step) engine.step();
  engine.submit(request(100, 1), into(waits));
  const std::int64_t before = engine.step_counts().ahead;
  for (int step = 0; step < 52; ++step) engine.step();
  EXPECT_TRUE(waits.tokens.empty());
  EXPECT_LE(engine.step_counts().ahead - before, 52 - 3);  // one of 17 is scheduled
  EXPECT_GE(engine.step_counts().ahead - before, 40);
  engine.run();
  EXPECT_EQ(waits.tokens.size(), 1U);
}

TEST_F(SteadyBatchTest, WhoeverStopsAtManyTokensIsNotInOne) {
  std::vector<Heard> heard(2);
  Request many = request(9, 60);
  for (TokenId token = 0; token < 50; ++token) many.stop_tokens.push_back(2000 + token);  // none is in the vocabulary
  engine_.submit(many, into(heard[0]));
  engine_.submit(request(7, 60), into(heard[1]));
  for (int step = 0; step < 30; ++step) engine_.step();
  EXPECT_EQ(engine_.step_counts().steady, 0);
  expect_complete(heard);
  EXPECT_GT(engine_.step_counts().ahead, 20);
}

TEST_F(SteadyBatchTest, EndsAtItsStopTokens) {
  Heard whole;
  engine_.submit(request(7, 60), into(whole));
  engine_.run();
  ASSERT_EQ(whole.tokens.size(), 60U);
  for (const size_t at : {15U, 40U}) {
    Request stopping = request(7, 60);
    stopping.stop_tokens = {2001, whole.tokens[at]};
    const auto first = std::ranges::find(whole.tokens, whole.tokens[at]) - whole.tokens.begin();
    Heard heard;
    engine_.submit(stopping, into(heard));
    engine_.run();
    EXPECT_EQ(heard.finish, FinishReason::kStop);
    EXPECT_EQ(heard.ends, 1);
    EXPECT_EQ(std::ssize(heard.tokens), first);
  }
  EXPECT_EQ(engine_.cache().problem(), std::nullopt);
}

// An observer gets logits, so that nothing is sampled on the device for it: what was in flight is none of its
// business.
TEST_F(SteadyBatchTest, EndsForAnObserver) {
  Heard heard;
  engine_.submit(request(7, 60), into(heard));
  for (int step = 0; step < 20; ++step) engine_.step();
  std::int64_t rows = 0;
  engine_.observe([&rows](RequestId, Position, std::span<const float> logits) { rows += logits.empty() ? 0 : 1; });
  expect_complete({heard});
  engine_.run();
  EXPECT_EQ(heard.tokens.size(), 60U);
  EXPECT_GE(rows, 38);
}

}  // namespace
}  // namespace kvasir::testing
