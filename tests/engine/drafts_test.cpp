// Several tokens in a step: drafts that are right, wrong, and wrong in the middle, through all of a step.
#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "engine/known_drafter.h"
#include "engine/sampling_backend.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

// Allows tokens below 60 alone, and takes more than one call to find out.
class SlowMask : public TokenConstraint {
 public:
  bool prepare(std::size_t& work) override {
    constexpr std::size_t kWork = 1 << 16;  // more than the engine's thread may do
    if (known_) return true;
    if (work < kWork) {
      work = 0;
      return false;
    }
    work -= kWork;
    return known_ = true;
  }
  void mask(std::span<float> logits) override {
    EXPECT_TRUE(known_);
    std::ranges::fill(logits.subspan(60), -1e30F);
  }
  void accept(TokenId token) override {
    EXPECT_LT(token, 60);
    known_ = false;
  }
  bool ended() const override { return false; }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<SlowMask>(); }

 private:
  bool known_ = false;
};

class DraftsTest : public ::testing::Test {
 protected:
  static Request request(std::int64_t answer, float temperature = 1.0F) {
    Request out;
    for (TokenId i = 0; i < 21; ++i) out.prompt.push_back(i * 7 % 90 + 1);
    out.max_tokens = answer;
    out.sampling.temperature = temperature;
    out.sampling.seed = 9;
    return out;
  }
  Heard plain(const Request& asked) { return answer(asked, nullptr); }
  Heard answer(const Request& asked, Drafter* drafter, EngineConfig config = {}) {
    Engine engine(*backend_, *model_, std::move(config));
    engine.use_drafter(drafter);
    Heard heard;
    engine.submit(asked, into(heard));
    engine.run();
    EXPECT_EQ(heard.ends, 1);
    EXPECT_EQ(engine.cache().problem(), std::nullopt);
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
    return heard;
  }
  static KnownDrafter right(std::int64_t length) {
    return {[](std::int64_t) { return false; }, [length](std::int64_t) { return length; }};
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 64);
};

TEST_F(DraftsTest, WhatIsRightComesInFewerSteps) {
  const Heard expected = plain(request(40));
  KnownDrafter drafter = right(4);
  drafter.know(request(40).prompt, expected.tokens);
  const Heard heard = answer(request(40), &drafter);
  EXPECT_EQ(heard.tokens, expected.tokens);
  EXPECT_EQ(heard.finish, FinishReason::kLength);
  EXPECT_EQ(expected.record.steps, 40);
  EXPECT_EQ(heard.record.steps, 1 + 8);  // the prompt's, and five tokens in each of the others but the last: 39
  EXPECT_EQ(heard.record.computed_tokens, expected.record.computed_tokens);
}

// Every token but the one that is sampled in its place is thrown away, and so are those behind it.
TEST_F(DraftsTest, WhatIsWrongIsNeverSeen) {
  const Heard expected = plain(request(40));
  KnownDrafter always([](std::int64_t) { return true; }, [](std::int64_t) { return 3; });
  KnownDrafter sometimes([](std::int64_t output) { return output % 5 == 3; }, [](std::int64_t i) { return i % 7; });
  for (KnownDrafter* drafter : {&always, &sometimes}) {
    drafter->know(request(40).prompt, expected.tokens);
    const Heard heard = answer(request(40), drafter);
    EXPECT_EQ(heard.tokens, expected.tokens);
    EXPECT_GT(drafter->drafts(), 5);
    EXPECT_GT(heard.record.computed_tokens, expected.record.computed_tokens);
  }
  EXPECT_EQ(always.drafts(), 38);  // a step for each token, but the first and the last
}

// What the cache has afterwards is the answer, whole blocks of it, and nothing that was guessed wrong.
TEST_F(DraftsTest, PublishesTheAnswerAlone) {
  const Heard expected = plain(request(60));
  KnownDrafter drafter([](std::int64_t output) { return output % 4 == 1; }, [](std::int64_t) { return 5; });
  drafter.know(request(60).prompt, expected.tokens);
  Engine engine(*backend_, *model_, {});
  engine.use_drafter(&drafter);
  Heard heard;
  engine.submit(request(60), into(heard));
  engine.run();
  engine.use_drafter(nullptr);
  Request again = request(1);
  again.prompt.insert(again.prompt.end(), heard.tokens.begin(), heard.tokens.end());
  Heard found;
  engine.submit(again, into(found));
  engine.run();
  EXPECT_EQ(found.record.reuse.reused_tokens, 80);  // 21 and 60 tokens; the last one's row was never computed
  EXPECT_EQ(engine.cache().stats().published_blocks, 5);
  EXPECT_EQ(found.tokens, plain(again).tokens);
}

TEST_F(DraftsTest, StopsInTheMiddleOfADraft) {
  const Heard whole = plain(request(40));
  for (const size_t at : {3U, 7U, 20U}) {
    Request stopping = request(40);
    stopping.stop_tokens = {whole.tokens[at]};
    const Heard expected = plain(stopping);
    KnownDrafter drafter = right(6);
    drafter.know(stopping.prompt, whole.tokens);  // goes on behind the stop
    const Heard heard = answer(stopping, &drafter);
    EXPECT_EQ(heard.tokens, expected.tokens);
    EXPECT_EQ(heard.finish, FinishReason::kStop);
  }
}

TEST_F(DraftsTest, WhoCancelsAtATokenGetsNoMore) {
  const Heard whole = plain(request(40));
  for (const size_t at : {2U, 5U, 38U}) {
    KnownDrafter drafter = right(8);
    drafter.know(request(40).prompt, whole.tokens);
    Engine engine(*backend_, *model_, {});
    engine.use_drafter(&drafter);
    Heard heard;
    engine.submit(request(40), [&](const Update& update) {
      heard.add(update);
      if (heard.tokens.size() == at && update.finish == FinishReason::kNone) engine.cancel(update.id);
    });
    engine.run();
    EXPECT_EQ(heard.tokens, std::vector(whole.tokens.begin(), whole.tokens.begin() + static_cast<int>(at)));
    EXPECT_EQ(heard.finish, FinishReason::kCancelled);
    EXPECT_EQ(heard.ends, 1);
  }
}

// Sampling a row looks at all tokens before it: penalties, forms, the least number of tokens, probabilities.
TEST_F(DraftsTest, RowsAreSampledOneAfterTheOther) {
  std::vector<Request> all(4, request(30));
  all[0].sampling.repetition_penalty = 1.6F;
  all[0].sampling.frequency_penalty = 0.5F;
  all[1].constraint = std::make_shared<SlowMask>();
  all[2].min_tokens = 17;
  for (TokenId token = 0; token < 50; ++token) all[2].stop_tokens.push_back(token);
  all[3].logprobs = 3;
  for (const Request& asked : all) {
    std::vector<float> chosen;
    const auto probabilities = [&chosen](Heard& heard) {
      return [&](const Update& update) {
        heard.add(update);
        if (update.logprobs != nullptr) chosen.push_back(update.logprobs->chosen);
      };
    };
    std::vector<std::vector<float>> told;
    std::vector<std::vector<TokenId>> tokens;
    KnownDrafter drafter([](std::int64_t output) { return output % 6 == 5; }, [](std::int64_t) { return 4; });
    for (Drafter* by : {static_cast<Drafter*>(nullptr), static_cast<Drafter*>(&drafter)}) {
      Engine engine(*backend_, *model_, {});
      engine.use_drafter(by);
      Heard heard;
      engine.submit(asked, probabilities(heard));
      engine.run();
      drafter.know(asked.prompt, heard.tokens);
      tokens.push_back(heard.tokens);
      told.push_back(std::exchange(chosen, {}));
    }
    EXPECT_EQ(tokens[1], tokens[0]);
    EXPECT_EQ(told[1], told[0]);
    EXPECT_EQ(told[0].size(), asked.logprobs ? 30U : 0U);
    EXPECT_GT(drafter.drafts(), 2);
  }
}

// The device samples every row of a draft at once; the host compares.
TEST_F(DraftsTest, TheDeviceSamplesDraftsToo) {
  const Heard expected = plain(request(40));
  KnownDrafter drafter([](std::int64_t output) { return output % 5 == 3; }, [](std::int64_t) { return 4; });
  drafter.know(request(40).prompt, expected.tokens);
  SamplingBackend sampling(make_backend({"cpu", 1, "auto"}));
  const auto model = load_golden("gqa", sampling, 64);
  Engine engine(sampling, *model, {});
  engine.use_drafter(&drafter);
  Heard heard;
  engine.submit(request(40), into(heard));
  engine.run();
  EXPECT_EQ(heard.tokens, expected.tokens);
  EXPECT_EQ(sampling.downloaded_, 0U);
  EXPECT_LT(heard.record.steps, 25);
  EXPECT_EQ(engine.step_counts().ahead, 0);  // whoever guesses must know the token before
}

// Where there is no room for a draft there is none, and nobody is preempted for one.
TEST_F(DraftsTest, NobodyMakesRoomForADraft) {
  EngineConfig config;
  const KvGroup group = kv_groups(model_->config(), config.kv).front();
  config.kv_bytes = static_cast<std::uint64_t>(4 * make_layout(group, 16).block_bytes());
  const Heard expected = plain(request(43));  // 64 tokens, the last of which is never computed
  KnownDrafter drafter = right(30);
  drafter.know(request(43).prompt, expected.tokens);
  const Heard heard = answer(request(43), &drafter, config);
  EXPECT_EQ(heard.tokens, expected.tokens);
  EXPECT_EQ(heard.record.preemptions, 0);
}

}  // namespace
}  // namespace kvasir::testing
