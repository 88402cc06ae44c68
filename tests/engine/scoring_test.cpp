// Prompts that are scored: the observer sees the logits of their tokens, whatever the cache has and however they are
// cut into steps.
#include <gtest/gtest.h>

#include <map>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "support/fixtures.h"
#include "support/forward.h"

namespace kvasir::testing {
namespace {

using Rows = std::map<Position, std::vector<float>>;  // by the position of the token they foretell

class ScoringTest : public ::testing::Test {
 protected:
  ScoringTest() {
    config_.kv = uniform_policy(KvFormat::kF32);
    for (int i = 0; i < 75; ++i) prompt_.push_back((i * 7 + 3) % 50);
  }

  Rows score(Engine& engine, std::optional<Position> from, std::int64_t answer = 1) {
    Rows seen;
    engine.observe([&seen](RequestId, Position position, std::span<const float> row) {
      EXPECT_TRUE(seen.emplace(position, std::vector(row.begin(), row.end())).second) << position << " came twice";
    });
    Request request;
    request.prompt = prompt_;
    request.max_tokens = answer;
    request.sampling.temperature = 0;
    request.score_from = from;
    engine.submit(std::move(request), into(heard_));
    engine.run();
    engine.observe({});
    return seen;
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 128);
  EngineConfig config_;
  std::vector<TokenId> prompt_;
  Heard heard_;
};

TEST_F(ScoringTest, EveryTokensLogitsAreThoseOfTheModelHoweverItIsCut) {
  const std::vector<float> expected = forward(*model_, *backend_, prompt_);
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  for (const int batch : {128, 32, 7, 1}) {
    config_.scheduler.max_batch_tokens = batch;
    Engine engine(*backend_, *model_, config_);
    const Rows seen = score(engine, 0);
    ASSERT_EQ(seen.size(), prompt_.size()) << batch;
    for (size_t i = 0; i < prompt_.size(); ++i) {
      const auto row = expected.begin() + static_cast<std::ptrdiff_t>(i * vocab);
      ASSERT_EQ(seen.at(static_cast<Position>(i) + 1),
                std::vector<float>(row, row + static_cast<std::ptrdiff_t>(vocab)))
          << "batch " << batch << ", token " << i;
    }
  }
}

TEST_F(ScoringTest, WhatIsScoredIsComputedAndWhatComesBeforeIsFound) {
  config_.scheduler.max_batch_tokens = 20;
  Engine engine(*backend_, *model_, config_);
  const Rows all = score(engine, 0, 7);       // its last block is full
  EXPECT_EQ(all.size(), prompt_.size() + 6);  // and the answer's
  EXPECT_EQ(heard_.record.computed_tokens, 81);
  for (const Position from : {0, 15, 16, 17, 50, 74}) {
    const Rows seen = score(engine, from);
    EXPECT_EQ(heard_.record.computed_tokens, 75 - from) << from;  // no more and no less
    ASSERT_EQ(seen.size(), prompt_.size() - static_cast<size_t>(from));
    for (const auto& [position, row] : seen) ASSERT_EQ(row, all.at(position)) << from << ' ' << position;
  }
  EXPECT_EQ(score(engine, std::nullopt).size(), 1U);
}

TEST_F(ScoringTest, BesideOthersItIsTheSame) {
  config_.scheduler.max_batch_tokens = 24;
  Engine alone(*backend_, *model_, config_);
  const Rows expected = score(alone, 30);
  Engine engine(*backend_, *model_, config_);
  Request other;
  other.prompt = {9, 8, 7, 6, 5};
  other.max_tokens = 1;
  other.sampling.temperature = 0;
  Rows of_others;
  engine.submit(other, {});
  RequestId scored = 0;
  Rows seen;
  engine.observe([&](RequestId id, Position position, std::span<const float> row) {
    (id == scored ? seen : of_others)[position] = {row.begin(), row.end()};
  });
  Request request;
  request.prompt = prompt_;
  request.max_tokens = 1;
  request.score_from = 30;
  scored = engine.submit(request, {});
  other.prompt.push_back(4);
  engine.submit(other, {});
  engine.run();
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(of_others.size(), 2U);
}

TEST_F(ScoringTest, AnAnswerCannotBeScoredBeforeItIsThere) {
  Engine engine(*backend_, *model_, config_);
  for (const Position from : {Position{-1}, Position{75}}) {
    Request request;
    request.prompt = prompt_;
    request.score_from = from;
    EXPECT_THROW(engine.submit(request, {}), Error) << from;
  }
}

}  // namespace
}  // namespace kvasir::testing
