// The planner's numbers are the allocator's, to the byte, and the engine lives exactly as the plan says.
#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "plan/plan.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class PlanMatchesAllocation : public ::testing::TestWithParam<KvFormat> {
 protected:
  // Runs `users` requests that each fill the context; returns how often one was preempted.
  std::int64_t preemptions(Engine& engine, std::int64_t users, std::int64_t context) {
    for (std::int64_t user = 0; user < users; ++user) {
      Request request;
      request.prompt = {static_cast<TokenId>(user), 50, 60};
      request.max_tokens = context;
      request.sampling.seed = static_cast<std::uint64_t>(user);
      engine.submit(request, {});
    }
    engine.run();
    return engine.scheduler().preemptions();
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 64);
};

INSTANTIATE_TEST_SUITE_P(Formats, PlanMatchesAllocation, ::testing::ValuesIn(kAllKvFormats));

TEST_P(PlanMatchesAllocation, ToTheByteForAnyUsersContextAndBlockSize) {
  for (const int block_tokens : {1, 16, 20}) {
    for (const std::int64_t context : {33, 64, 100}) {
      for (const std::int64_t users : {1, 3}) {
        PlanInput input;
        input.weights_bytes = parameter_count(model_->config()) * block_bytes(model_->config().dtype);
        input.groups = kv_groups(model_->config(), uniform_policy(GetParam()));
        // The last token of an answer is never fed back: a context of n tokens caches n - 1.
        input.context = context - 1;
        input.users = users;
        input.block_tokens = block_tokens;
        const MemoryPlan plan = plan_memory(input);
        EXPECT_EQ(input.weights_bytes, model_->weight_bytes());

        EngineConfig config;
        config.kv = uniform_policy(GetParam());
        config.block_tokens = block_tokens;
        config.context = context;
        config.kv_bytes = plan.kv_bytes;
        Engine engine(*backend_, *model_, config);
        EXPECT_EQ(engine.storage().bytes(), plan.kv_bytes);
        EXPECT_EQ(engine.cache().pool(0).size(),
                  pool_blocks(plan.kv_bytes, static_cast<std::uint64_t>(engine.storage().block_bytes(0))));
        EXPECT_EQ(preemptions(engine, users, context), 0) << block_tokens << " " << context << " " << users;
      }
    }
  }
}

// A source and its answer, each of as many tokens as the context has: T5's shape.
TEST(PlanMatchesAllocationTest, OfASourceToTheByte) {
  const auto backend = make_backend({"cpu", 1, "auto"});
  const auto model = load_golden("t5", *backend, 64);
  for (const std::int64_t users : {1, 3}) {
    PlanInput input;
    input.groups = kv_groups(model->config(), uniform_policy(KvFormat::kF16));
    input.source_groups = 1;
    input.context = 64;
    input.users = users;
    const MemoryPlan plan = plan_memory(input);
    EXPECT_EQ(plan.groups.back().of_source, true);
    EXPECT_EQ(plan.groups.front().of_source, false);
    EXPECT_EQ(parameter_count(model->config()) * block_bytes(model->config().dtype), model->weight_bytes());
    EngineConfig config;
    config.kv = uniform_policy(KvFormat::kF16);
    config.kv_bytes = plan.kv_bytes;
    Engine engine(*backend, *model, config);
    EXPECT_EQ(engine.storage().bytes(), plan.kv_bytes);
    for (std::int64_t user = 0; user < users; ++user) {
      Request request;
      request.prompt.assign(64, static_cast<TokenId>(user));
      request.max_tokens = 64;
      engine.submit(request, {});
    }
    engine.run();
    EXPECT_EQ(engine.scheduler().preemptions(), 0);
    std::int64_t blocks = 0;
    for (size_t group = 0; group < 2; ++group) {
      const BlockPool& pool = engine.cache().pool(group);
      blocks += pool.size() - pool.free_blocks();
    }
    EXPECT_GE(blocks, users * 7);  // of the text all but its last block are kept, and of the source all
  }
}

TEST_P(PlanMatchesAllocation, OneBlockLessIsOneTooFew) {
  PlanInput input;
  input.groups = kv_groups(model_->config(), uniform_policy(GetParam()));
  input.context = 63;
  input.users = 3;
  const MemoryPlan plan = plan_memory(input);
  EngineConfig config;
  config.kv = uniform_policy(GetParam());
  config.context = 64;
  config.kv_bytes = plan.kv_bytes - plan.bytes_per_block;
  Engine engine(*backend_, *model_, config);
  EXPECT_GT(preemptions(engine, 3, 64), 0);
}

}  // namespace
}  // namespace kvasir::testing
