// The canary on the shipped draft model: what it sees, whom it replaces, and that nobody notices it.
#include "eval/canary.h"

#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "engine/engine_thread.h"
#include "eval/policy_engine.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class CanaryTest : public ::testing::Test {
 protected:
  EngineConfig config(const std::string& policy) {
    EngineConfig out = with_policy({}, policy);
    out.internal_policies = canary_policies({{out.kv}});
    return out;
  }

  static Request request(TokenId first, std::int64_t answer = 40) {
    Request out;
    for (TokenId i = 0; i < 30; ++i) out.prompt.push_back((first * 131 + i * 37) % 1000);
    out.max_tokens = answer;
    out.sampling.seed = static_cast<std::uint64_t>(first);
    return out;
  }

  std::vector<TokenId> answer(Engine& engine, const Request& asked, std::string* policy = nullptr) {
    std::vector<TokenId> tokens;
    engine.submit(asked, [&](const Update& update) {
      if (update.token >= 0) tokens.push_back(update.token);
      if (policy != nullptr) *policy = update.record->kv;
    });
    engine.run();
    return tokens;
  }

  // As the engine's thread does it.
  static void rest(Engine& engine, Canary& canary) {
    while (canary.waiting()) {
      canary.begin(engine);
      engine.run();
    }
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_model(source_dir() / "models/tales-draft", *backend_, {512, {}});
};

TEST(CanaryPolicies, EachStepHasMoreBitsAndTheLastIsPlain) {
  const auto policy = [](const char* text) { return parse_kv_policy(text, "test"); };
  EXPECT_EQ(safer(policy("int2")), policy("int4"));
  EXPECT_EQ(safer(policy("k=int4, v=int2, window=100, sinks=4")), policy("k=int8, v=int4, window=100, sinks=4"));
  EXPECT_EQ(safer(policy("int8, recent=64:f32, sinks=4")), policy("f16"));
  EXPECT_EQ(safer(policy("f16, window=100")), std::nullopt);
  EXPECT_EQ(safer(policy("bf16")), std::nullopt);
  EXPECT_EQ(safer(policy("int8, evict=h2o:20, sinks=2")), policy("f16, evict=h2o:20, sinks=2"));
  EXPECT_EQ(safer(policy("f16, evict=h2o:20, sinks=2")), policy("f16"));
  EXPECT_EQ(safer(policy("int4, 0:int8, 2:int4/int2, recent=64:int8")),
            policy("int8, 0:f16, 2:int8/int4, recent=64:int8"));
  EXPECT_EQ(safer(policy("f16, 1:int8/f16, recent=64:f32")), policy("f16"));
  EXPECT_TRUE(is_lossy(policy("f16, 1:int8")));
  EXPECT_FALSE(is_lossy(policy("f16")));
  EXPECT_TRUE(is_lossy(policy("f16, window=100")));
  EXPECT_TRUE(is_lossy(policy("k=f16, v=int8")));
  const std::vector<KvPolicy> all = canary_policies({{policy("int2"), policy("fp8")}});
  EXPECT_EQ(all.size(), 1 + 3 + 2U);  // f32; int4, int8, f16; int8, f16
}

TEST_F(CanaryTest, SeesWhatAPolicyCosts) {
  std::map<std::string, double> kl;
  for (const char* policy : {"int8", "int4", "int2"}) {
    Engine engine(*backend_, *model_, config(policy));
    Canary canary({1.0, 1e9, 1}, {});
    canary.watch(engine);
    for (TokenId i = 0; i < 4; ++i) answer(engine, request(i));
    EXPECT_TRUE(canary.seen().empty());  // not while somebody waits
    rest(engine, canary);
    const Canary::Seen& seen = canary.seen().at(policy);
    EXPECT_EQ(seen.requests, 4);
    EXPECT_EQ(seen.sums.rows, 4 * Canary::kMostJudged);
    kl[policy] = seen.sums.mean_kl();
  }
  EXPECT_LT(kl["int8"], 2e-3);
  EXPECT_GT(kl["int4"], 3 * kl["int8"]);
  EXPECT_GT(kl["int2"], 3 * kl["int4"]);
}

TEST_F(CanaryTest, ReplacesWhatIsTooFarOffStepByStep) {
  Engine engine(*backend_, *model_, config("int2"));
  std::vector<Canary::Verdict> verdicts;
  Canary canary({1.0, 0.003, 64}, [&](const Canary::Verdict& verdict) { verdicts.push_back(verdict); });
  canary.watch(engine);
  std::string under;
  for (TokenId i = 0; i < 9; ++i) {
    answer(engine, request(i), &under);
    rest(engine, canary);
  }
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_EQ(verdicts[0].policy, "int2");
  EXPECT_EQ(verdicts[0].replaced_by, "int4");
  EXPECT_GT(verdicts[0].kl, 0.003);
  EXPECT_EQ(verdicts[0].tokens, 64);
  EXPECT_EQ(verdicts[1].policy, "int4");
  EXPECT_EQ(verdicts[1].replaced_by, "int8");
  EXPECT_EQ(under, "int8");
  EXPECT_EQ(canary.seen().at("int2").replaced_by, "int4");
}

TEST_F(CanaryTest, AShareIsAShareAndPlainPoliciesAreNotWatched) {
  Engine engine(*backend_, *model_, config("int8"));
  Canary canary({0.25, 1e9, 1}, {});
  canary.watch(engine);
  for (TokenId i = 0; i < 80; ++i) {
    answer(engine, request(i, 2));
    rest(engine, canary);
  }
  const std::int64_t seen = canary.seen().at("int8").requests;
  EXPECT_GT(seen, 8);
  EXPECT_LT(seen, 32);
  Engine plain(*backend_, *model_, config("f16"));
  Canary idle({1.0, 1e9, 1}, {});
  idle.watch(plain);
  answer(plain, request(1));
  EXPECT_FALSE(idle.waiting());
}

TEST_F(CanaryTest, GivesWayAndChangesNoAnswer) {
  std::vector<std::vector<TokenId>> alone;
  for (TokenId i = 0; i < 4; ++i) {
    Engine engine(*backend_, *model_, config("int4"));
    alone.push_back(answer(engine, request(i)));
  }
  Engine engine(*backend_, *model_, config("int4"));
  Canary canary({1.0, 1e9, 1}, {});
  canary.watch(engine);
  for (TokenId i = 0; i < 4; ++i) {
    canary.begin(engine);
    engine.step();
    canary.give_way(engine);
    EXPECT_EQ(answer(engine, request(i)), alone[static_cast<size_t>(i)]) << i;
    EXPECT_TRUE(canary.seen().empty());
  }
  rest(engine, canary);
  EXPECT_EQ(canary.seen().at("int4").requests, 3);  // the first was disturbed three times, and let go
  EXPECT_EQ(engine.cache().problem(), std::nullopt);
}

TEST_F(CanaryTest, OnAThreadOfItsOwnItWorksWhenNobodyAsks) {
  Engine engine(*backend_, *model_, config("int4"));
  Canary canary({1.0, 1e9, 1}, {});
  canary.watch(engine);
  EngineThread thread(engine, &canary);
  std::promise<void> ended;
  thread.submit(request(1), [&](const Update& update) {
    if (update.finish != FinishReason::kNone) ended.set_value();
  });
  ended.get_future().wait();
  const auto seen = [&] { return thread.ask([&](Engine&) { return canary.seen().size(); }); };
  for (int i = 0; i < 2000 && seen() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(seen(), 1U);
}

}  // namespace
}  // namespace kvasir::testing
