// What a request may ask, and what becomes of it.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/heard.h"
#include "support/fixtures.h"
#include "support/some_basis.h"

namespace kvasir::testing {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  static Request request(std::vector<TokenId> prompt, std::int64_t max_tokens) {
    Request out;
    out.prompt = std::move(prompt);
    out.max_tokens = max_tokens;
    out.sampling.temperature = 0;
    return out;
  }

  // The whole message of the Error, or "no error".
  std::string refusal(Engine& engine, Request asked) {
    try {
      engine.submit(std::move(asked), {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 64);
};

TEST_F(EngineTest, AnswersAsManyTokensAsAskedFor) {
  Engine engine(*backend_, *model_, {});
  Heard heard;
  engine.submit(request({1, 2, 3}, 7), into(heard));
  engine.run();
  EXPECT_EQ(heard.tokens.size(), 7U);
  EXPECT_EQ(heard.finish, FinishReason::kLength);
  EXPECT_EQ(heard.record.steps, 7);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

TEST_F(EngineTest, PoliciesOfShorterRowsNeedABasisAndAreNamedByIt) {
  EngineConfig config;
  config.others = EngineConfig::OtherPolicies::kAny;
  Request asked = request({1, 2, 3}, 2);
  asked.kv = parse_kv_policy("f16, rank=k:8", "kv");
  {
    Engine engine(*backend_, *model_, config);
    EXPECT_NE(refusal(engine, asked).find("needs a basis"), std::string::npos);
    EngineConfig always = config;
    always.kv = *asked.kv;
    EXPECT_THROW(Engine(*backend_, *model_, always), Error);
    always.kv = {};
    always.kv_also = {*asked.kv};
    EXPECT_THROW(Engine(*backend_, *model_, always), Error);
  }
  const auto name = [&](const char* policy) {
    return policy_key(*model_, *backend_, kv_groups(model_->config(), parse_kv_policy(policy, "kv")), 16);
  };
  const Key256 whole = name("f16");
  model_->use_basis(some_basis(model_->config(), 1));
  const Key256 eight = name("f16, rank=k:8");
  EXPECT_NE(eight, name("f16, rank=k:7"));
  EXPECT_NE(eight, name("f16, rank=v:8"));
  EXPECT_NE(eight, name("f16, channels=50%"));
  EXPECT_EQ(whole, name("f16"));
  Engine engine(*backend_, *model_, config);
  EXPECT_EQ(refusal(engine, asked), "no error");
  asked.kv->k_rank = 17;
  EXPECT_NE(refusal(engine, asked).find("more than the 16 numbers"), std::string::npos);
  engine.run();
  model_->use_basis(some_basis(model_->config(), 2));
  EXPECT_NE(eight, name("f16, rank=k:8"));
  EXPECT_EQ(whole, name("f16"));
}

TEST_F(EngineTest, AStopTokenEndsTheAnswerAndIsNotPartOfIt) {
  Engine engine(*backend_, *model_, {});
  Heard free_run;
  engine.submit(request({1, 2, 3}, 12), into(free_run));
  engine.run();
  Request stopped = request({1, 2, 3}, 12);
  stopped.stop_tokens = {free_run.tokens[5]};
  const auto first = std::ranges::find(free_run.tokens, free_run.tokens[5]);
  Heard heard;
  engine.submit(stopped, into(heard));
  engine.run();
  EXPECT_EQ(heard.finish, FinishReason::kStop);
  EXPECT_EQ(heard.tokens, std::vector(free_run.tokens.begin(), first));
}

TEST_F(EngineTest, TheContextEndsTheAnswer) {
  EngineConfig config;
  config.context = 20;
  Engine engine(*backend_, *model_, config);
  Heard heard;
  engine.submit(request({1, 2, 3, 4, 5}, 1000), into(heard));
  engine.run();
  EXPECT_EQ(heard.tokens.size(), 15U);
  EXPECT_EQ(heard.finish, FinishReason::kLength);
}

TEST_F(EngineTest, CancellingFreesEverythingAndDisturbsNobody) {
  Engine engine(*backend_, *model_, {});
  Heard cancelled;
  Heard other;
  Heard waiting;
  const RequestId id = engine.submit(request({1, 2, 3}, 400), into(cancelled));
  engine.submit(request({4, 5, 6}, 20), into(other));
  for (int i = 0; i < 5; ++i) engine.step();
  const RequestId never_ran = engine.submit(request({7, 8}, 10), into(waiting));
  engine.cancel(id);
  engine.cancel(never_ran);
  engine.cancel(12345);  // nobody: no harm
  engine.run();
  EXPECT_EQ(cancelled.finish, FinishReason::kCancelled);
  EXPECT_LT(cancelled.tokens.size(), 10U);
  EXPECT_EQ(waiting.finish, FinishReason::kCancelled);
  EXPECT_EQ(waiting.tokens.size(), 0U);
  EXPECT_EQ(other.tokens.size(), 20U);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
  EXPECT_EQ(engine.cache().problem(), std::nullopt);
}

TEST_F(EngineTest, ACallbackMayCancelItsOwnRequest) {
  Engine engine(*backend_, *model_, {});
  int tokens = 0;
  FinishReason finish = FinishReason::kNone;
  engine.submit(request({1, 2, 3}, 100), [&](const Update& update) {
    tokens += update.token >= 0;
    finish = update.finish;
    if (tokens == 3) engine.cancel(update.id);
  });
  engine.run();
  EXPECT_EQ(tokens, 3);
  EXPECT_EQ(finish, FinishReason::kCancelled);
}

TEST_F(EngineTest, WhatCanNeverRunIsRefusedWithItsNumbers) {
  EngineConfig config;
  config.context = 100;
  Engine engine(*backend_, *model_, config);
  EXPECT_NE(refusal(engine, request({}, 1)).find("the prompt is empty"), std::string::npos);
  EXPECT_NE(refusal(engine, request(std::vector<TokenId>(100, 1), 1)).find("100 tokens, and the context holds 100"),
            std::string::npos);
  EXPECT_NE(refusal(engine, request({1, 101}, 1)).find("token 101 is not in the vocabulary of 101"),
            std::string::npos);
  EXPECT_NE(refusal(engine, request({1, -1}, 1)).find("token -1"), std::string::npos);
  EXPECT_NE(refusal(engine, request({1}, 0)).find("0 tokens were asked for"), std::string::npos);
  Request hot = request({1}, 1);
  hot.sampling.temperature = -1;
  EXPECT_NE(refusal(engine, hot).find("temperature is -1"), std::string::npos);
  EXPECT_TRUE(engine.idle());
}

TEST_F(EngineTest, ARequestLargerThanThePoolIsRefusedAndTheNextOneRuns) {
  EngineConfig config;
  const auto group = kv_groups(model_->config(), uniform_policy(KvFormat::kF16))[0];
  config.kv_bytes = static_cast<std::uint64_t>(3 * make_layout(group, 16).block_bytes());
  Engine engine(*backend_, *model_, config);
  const std::string why = refusal(engine, request({1, 2, 3}, 60));
  EXPECT_NE(why.find("63 tokens of prompt and answer need"), std::string::npos) << why;
  EXPECT_NE(why.find("in 4 pages, more than the cache's 3 pages of"), std::string::npos) << why;
  Heard heard;
  engine.submit(request({1, 2, 3}, 45), into(heard));
  engine.run();
  EXPECT_EQ(heard.tokens.size(), 45U);
}

TEST_F(EngineTest, BadConfigurationsAreRefused) {
  const auto error = [this](const EngineConfig& config) -> std::string {
    try {
      const Engine engine(*backend_, *model_, config);
    } catch (const Error& refused) {
      return refused.what();
    }
    return "no error";
  };
  EngineConfig config;
  config.kv_bytes = 100;
  EXPECT_NE(error(config).find("do not hold one block of 16 tokens"), std::string::npos);
  config = {};
  config.context = 100000;
  EXPECT_NE(error(config).find("more than the 512 the model was trained for"), std::string::npos);
  config = {};
  config.block_tokens = 0;
  EXPECT_NE(error(config).find("--block-size"), std::string::npos);
  config = {};
  config.eviction = "random";
  EXPECT_NE(error(config).find("use lru, fifo or cost"), std::string::npos);
}

TEST_F(EngineTest, APromptLongerThanAWindowedPoolIsReadInSmallerChunks) {
  const auto windowed = load_golden("gqa", *backend_, 64, {24, 24});
  EngineConfig config;
  const auto group = kv_groups(windowed->config(), uniform_policy(KvFormat::kF16))[0];
  config.kv_bytes = static_cast<std::uint64_t>(4 * make_layout(group, 16).block_bytes());
  Engine engine(*backend_, *windowed, config);
  Heard heard;
  engine.submit(request(std::vector<TokenId>(300, 5), 30),
                into(heard));  // chunks of 64 tokens would need five blocks
  engine.run();
  EXPECT_EQ(heard.tokens.size(), 30U);
  EXPECT_EQ(engine.cache().problem(), std::nullopt);
}

TEST_F(EngineTest, LogitsThatAreNotNumbersFailTheirRequestAndNoOther) {
  Engine engine(*backend_, *model_, {});
  Heard bad;
  Heard good;
  Request poisoned = request({1, 2, 3}, 10);
  poisoned.sampling.logit_bias = {{4, std::numeric_limits<float>::quiet_NaN()}};
  engine.submit(poisoned, into(bad));
  engine.submit(request({1, 2, 3}, 10), into(good));
  engine.run();
  EXPECT_EQ(bad.finish, FinishReason::kFailed);
  EXPECT_NE(bad.record.failure.find("not numbers"), std::string::npos);
  EXPECT_EQ(good.tokens.size(), 10U);
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

TEST_F(EngineTest, AForkOfAForkSharesTheSameBlocks) {
  Engine engine(*backend_, *model_, {});
  Heard a;
  Heard b;
  Heard c;
  Request sampled = request(std::vector<TokenId>(40, 3), 20);
  sampled.sampling.temperature = 1;
  const RequestId first = engine.submit(sampled, into(a));
  for (int i = 0; i < 3; ++i) engine.step();
  const std::int64_t alone = engine.cache().pool(0).held();
  const RequestId second = engine.fork(first, 1, into(b));
  engine.fork(second, 2, into(c));
  EXPECT_EQ(engine.cache().pool(0).held(), alone);  // nothing was copied yet
  engine.run();
  EXPECT_EQ(a.tokens.size(), 20U);
  EXPECT_EQ(b.tokens.size(), 17U);  // since the fork
  EXPECT_EQ(c.tokens.size(), 17U);
  EXPECT_EQ(engine.cache().problem(), std::nullopt);
}

}  // namespace
}  // namespace kvasir::testing
