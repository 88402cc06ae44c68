// Where states of recurrent layers are kept, and what a request with another text in the cache finds of them.
#include "engine/schedule/state_marks.h"

#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "model/random_model.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

using Marks = std::vector<Position>;

TEST(StateMarks, TheEndOfThePromptComesFirst) {
  EXPECT_EQ(states_to_keep({.prompt = 100, .tokens = 100, .step = 16, .budget = 4}), Marks({96}));
  EXPECT_EQ(states_to_keep({.prompt = 97, .tokens = 97, .step = 16, .budget = 4}), Marks({96}));
  EXPECT_EQ(states_to_keep({.prompt = 96, .tokens = 96, .step = 16, .budget = 4}), Marks({80}));
  EXPECT_EQ(states_to_keep({.prompt = 16, .tokens = 16, .step = 16, .budget = 4}), Marks());
  EXPECT_EQ(states_to_keep({.prompt = 100, .tokens = 100, .step = 16, .budget = 0}), Marks());
}

TEST(StateMarks, ThenWhereTextsPartAndPlacesBetween) {
  EXPECT_EQ(states_to_keep({.prompt = 100, .tokens = 100, .step = 16, .budget = 2, .parted = 48}), Marks({48, 96}));
  EXPECT_EQ(states_to_keep({.prompt = 100, .tokens = 133, .step = 16, .budget = 4}), Marks({96, 128}));
  EXPECT_EQ(states_to_keep({.prompt = 4000, .tokens = 4000, .step = 16, .budget = 4}),
            Marks({992, 2000, 2992, 3984}));
}

TEST(StateMarks, WhatBreakpointsAskForIsBesideTheBudget) {
  const std::vector<Breakpoint> marks{{40}, {64}, {5}};
  EXPECT_EQ(states_to_keep({.prompt = 100, .tokens = 100, .step = 16, .budget = 1, .breakpoints = marks}),
            Marks({32, 64, 96}));
}

TEST(StateMarks, WhatIsGoneOnFromIsWhereBreakpointsAre) {
  const std::vector<Breakpoint> marks{{5}, {40}, {64}, {65}};
  EXPECT_EQ(states_at_breakpoints(marks, 16), Marks({32, 64}));
}

class StatesInAnEngine : public ::testing::Test {
 protected:
  static std::unique_ptr<Model> model_of(Backend& backend) {
    ModelSpec spec = load_config(golden_dir("qwen3_next"));
    spec.context = 512;
    spec.eos.clear();
    return make_random_model(spec, backend, {512, {}}, 1);
  }
  RequestRecord run(const std::vector<TokenId>& prompt, std::int64_t answer = 4, std::optional<int> budget = {}) {
    Request request;
    request.state_budget = budget;
    request.prompt = prompt;
    request.max_tokens = answer;
    RequestRecord record;
    engine_.submit(request, [&](const Update& update) {
      record = *update.record;
      if (update.token >= 0) answer_.push_back(update.token);
    });
    answer_.clear();
    engine_.run();
    return record;
  }
  static std::vector<TokenId> text(int tokens, int seed) {
    std::vector<TokenId> out;
    for (int i = 0; i < tokens; ++i) out.push_back((i * 7 + i * i * seed + seed) % 19);
    return out;
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = model_of(*backend_);
  Engine engine_{*backend_, *model_, {}};
  std::vector<TokenId> answer_;
};

// A turn goes on where the last answer ended, but for what fills no block.
TEST_F(StatesInAnEngine, AConversationIsFoundWithItsAnswers) {
  std::vector<TokenId> chat = text(40, 1);
  EXPECT_EQ(run(chat, 30).reuse.reused_tokens, 0);
  for (int turn = 0; turn < 3; ++turn) {
    const auto cached = std::ssize(chat) + std::ssize(answer_) - 1;  // the last token is never fed back
    chat.insert(chat.end(), answer_.begin(), answer_.end());
    for (const TokenId token : text(9, turn + 2)) chat.push_back(token);
    const RequestRecord record = run(chat, 30);
    EXPECT_EQ(record.reuse.reused_tokens, cached / 16 * 16) << describe(record.reuse);
  }
}

// Of two that come together the second waits, and a state is kept where they part.
TEST_F(StatesInAnEngine, TwoThatComeTogetherShareWhatBothBeginWith) {
  std::vector<TokenId> one = text(70, 3);
  std::vector<TokenId> other = one;
  other[40] = (other[40] + 1) % 19;
  std::vector<RequestRecord> records(2);
  for (size_t i = 0; i < 2; ++i) {
    Request request;
    request.prompt = i == 0 ? one : other;
    request.max_tokens = 3;
    engine_.submit(request, [&records, i](const Update& update) { records[i] = *update.record; });
  }
  engine_.run();
  EXPECT_EQ(records[1].reuse.reused_tokens, 32) << describe(records[1].reuse);
}

// A request may leave fewer states behind than the engine lets anyone, and not more.
TEST_F(StatesInAnEngine, ARequestHasABudgetOfItsOwn) {
  const int most = SchedulerConfig{}.state_budget;
  EXPECT_EQ(run(text(40, 5), 4, 0).reuse.reused_tokens, 0);
  EXPECT_EQ(run(text(40, 5), 4, 0).reuse.reused_tokens, 0);  // nothing was left by the first
  EXPECT_EQ(run(text(40, 5), 4, 1).reuse.reused_tokens, 0);
  EXPECT_EQ(run(text(40, 5), 4, most).reuse.reused_tokens, 32);
  EXPECT_THROW(run(text(40, 5), 4, most + 1), Error);
  EXPECT_THROW(run(text(40, 5), 4, -1), Error);
}

// Rounded states, in an engine whose blocks are smaller than the step between two places where one may be kept.
TEST_F(StatesInAnEngine, RoundedOnesAreKeptAtTheirSteps) {
  EngineConfig config;
  config.kv = parse_kv_policy("f16, states=int8", "test");
  config.block_tokens = 8;
  Engine engine(*backend_, *model_, config);
  for (const int expected : {0, 32}) {
    Request request;
    request.prompt = text(44, 6);
    request.max_tokens = 2;
    std::int64_t reused = -1;
    engine.submit(request, [&](const Update& update) { reused = update.record->reuse.reused_tokens; });
    engine.run();
    EXPECT_EQ(reused, expected);
  }
}

TEST_F(StatesInAnEngine, AModelWithoutStatesHasNoFormatOfThem) {
  EXPECT_THROW(kv_groups(load_config(golden_dir("gqa")), parse_kv_policy("f16, states=bf16", "test")), Error);
}

TEST_F(StatesInAnEngine, PoliciesThatEvictTokensAreRefused) {
  Request request;
  request.prompt = text(20, 4);
  request.kv = parse_kv_policy("f16, evict=h2o:20", "test");
  request.origin = Request::Origin::kInternal;
  EXPECT_THROW(engine_.submit(request, {}), Error);
}

}  // namespace
}  // namespace kvasir::testing
