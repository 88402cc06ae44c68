// Several models in one engine: one memory, one queue, a batch for each in every step.
#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "engine/sampling_backend.h"
#include "model/known_models.h"
#include "model/random_model.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class SeveralModelsTest : public ::testing::Test {
 protected:
  static Request request(ModelId model, int i) {
    Request out;
    for (int t = 0; t < 18 + 9 * i; ++t) out.prompt.push_back(static_cast<TokenId>((5 * t + i) % 60));
    out.max_tokens = 20 + 6 * i;
    out.sampling.temperature = 1;
    out.sampling.seed = static_cast<std::uint64_t>(i);
    out.model = model;
    return out;
  }

  std::unique_ptr<Model> small_model(Backend& backend) const {
    return make_random_model(
        parse_shape("layers=3,hidden=48,ffn=64,heads=6,kv_heads=2,head_dim=8,vocab=77,context=96"), backend, {64, {}},
        3);
  }
  static std::vector<Heard> run(Engine& engine, const std::vector<Request>& requests) {
    std::vector<Heard> heard(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      engine.submit(requests[i], into(heard[i]));
      for (int step = 0; step < 2; ++step) engine.step();
    }
    engine.run();
    EXPECT_EQ(engine.cache().problem(), std::nullopt);
    for (size_t g = 0; g < engine.cache().groups(); ++g) EXPECT_EQ(engine.cache().pool(g).held(), 0);
    return heard;
  }
};

// In one batch a step, with little memory and with much, on a backend that samples and on one that does not.
TEST_F(SeveralModelsTest, EachAnswersAsInAnEngineOfItsOwn) {
  for (const bool samples : {false, true}) {
    std::unique_ptr<Backend> backend = make_backend({"cpu", 1, "auto"});
    if (samples) backend = std::make_unique<SamplingBackend>(std::move(backend));
    const auto large = load_golden("gqa", *backend, 64);
    const auto small = small_model(*backend);
    std::vector<Request> requests;
    std::vector<std::vector<TokenId>> expected;
    for (int i = 0; i < 6; ++i) {
      requests.push_back(request(static_cast<ModelId>(i % 2), i));
      Request alone = requests.back();
      alone.model = 0;
      Engine own(*backend, i % 2 == 0 ? *large : *small, {});
      expected.push_back(run(own, {alone}).front().tokens);
    }
    const std::vector<EngineModel> more{{small.get(), uniform_policy(KvFormat::kInt8)}};
    const std::vector<EngineModel> plain{{small.get(), KvPolicy{}}};
    EngineConfig tight;
    const KvGroup group = kv_groups(large->config(), tight.kv).front();
    tight.kv_bytes = static_cast<std::uint64_t>(9 * make_layout(group, 16).block_bytes());
    for (const EngineConfig& config : {EngineConfig{}, tight}) {
      Engine engine(*backend, *large, config, plain);
      const std::vector<Heard> heard = run(engine, requests);
      for (size_t i = 0; i < heard.size(); ++i) {
        EXPECT_EQ(heard[i].tokens, expected[i]) << i << ", sampled by the backend: " << samples;
        EXPECT_EQ(heard[i].finish, FinishReason::kLength);
      }
      EXPECT_EQ(engine.policies().all().size(), 2U);
      if (config.kv_bytes > 0) {
        EXPECT_GT(engine.scheduler().preemptions() + engine.scheduler().counts().waits, 0);
      }
    }
    Engine mixed(*backend, *large, {}, more);  // the other model's requests have a policy of their own
    EXPECT_EQ(run(mixed, requests)[0].tokens, expected[0]);
    EXPECT_EQ(run(mixed, requests)[1].record.kv, "int8");
  }
}

// The same tokens mean something else to another model: nothing of them is found.
TEST_F(SeveralModelsTest, NothingIsSharedBetweenThem) {
  const auto backend = make_backend({"cpu", 1, "auto"});
  const auto large = load_golden("gqa", *backend, 64);
  const auto small = small_model(*backend);
  const std::vector<EngineModel> more{{small.get(), KvPolicy{}}};
  Engine engine(*backend, *large, {}, more);
  const std::vector<Heard> first = run(engine, {request(0, 3), request(1, 3)});
  EXPECT_EQ(first[1].record.reuse.reused_tokens, 0);
  const std::vector<Heard> again = run(engine, {request(1, 3), request(0, 3)});
  for (const Heard& heard : again) EXPECT_EQ(heard.record.reuse.reused_tokens, 44);
  EXPECT_EQ(again[0].tokens, first[1].tokens);
  EXPECT_EQ(again[1].tokens, first[0].tokens);
}

TEST_F(SeveralModelsTest, EachHasItsOwnLimits) {
  const auto backend = make_backend({"cpu", 1, "auto"});
  const auto large = load_golden("gqa", *backend, 64);
  const auto small = small_model(*backend);
  const std::vector<EngineModel> more{{small.get(), KvPolicy{}}};
  Engine engine(*backend, *large, {}, more);
  const auto refusal = [&engine](const Request& asked) -> std::string {
    try {
      engine.submit(asked, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  Request asked = request(1, 0);
  asked.prompt.push_back(90);  // the other model has it
  EXPECT_NE(refusal(asked).find("token 90 is not in the vocabulary of 77"), std::string::npos);
  asked = request(1, 0);
  asked.prompt.assign(96, 1);
  EXPECT_NE(refusal(asked).find("96 tokens, and the context holds 96"), std::string::npos);
  EXPECT_NE(refusal(request(2, 0)).find("model 2 was asked for, and the engine has 2"), std::string::npos);
  Request to_the_end = request(1, 0);
  to_the_end.max_tokens = 1000;
  EXPECT_EQ(run(engine, {to_the_end})[0].tokens.size(), 96U - 18U);
}

}  // namespace
}  // namespace kvasir::testing
