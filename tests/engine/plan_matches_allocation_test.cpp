// The planner's numbers are the allocator's, to the byte, and the engine lives exactly as the plan says.
#include <gtest/gtest.h>

#include <cctype>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "engine/engine_config.h"
#include "model/counting_backend.h"
#include "model/known_models.h"
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

// A model of a known shape whose weights nobody needs: an engine lays its cache out by the shape alone.
class ShapeAlone final : public Model {
 public:
  explicit ShapeAlone(ModelSpec spec) : spec_(std::move(spec)) {}

  const ModelSpec& config() const override { return spec_; }
  Key256 fingerprint() const override { return {}; }
  Key256 stored_fingerprint() const override { return {}; }
  std::uint64_t weight_bytes() const override { return 0; }
  int max_rows() const override { return 512; }
  int longest_source() const override { return spec_.reads_source() ? 512 : 0; }
  std::vector<std::span<const std::byte>> weight_memory() const override { return {}; }
  void use_basis(const KvBasis&) override {}
  const std::optional<Key256>& basis_name() const override { return none_; }
  Matrix forward(const Batch&, KvStorage&) override { return {}; }

 private:
  ModelSpec spec_;
  std::optional<Key256> none_;
};

struct Sizes {
  const char* model;
  const char* kv;
  std::int64_t tokens;  // of a sequence, and of its source
  std::uint64_t bytes_per_token;
  std::uint64_t state_bytes;
  std::uint64_t kept_state_bytes;
};

class KnownShapes : public ::testing::TestWithParam<Sizes> {};

constexpr std::uint64_t kKi = 1024;
// Of Qwen3.6-35B-A3B: of 30 layers 32 matrices of 128 x 128, and 3 inputs of 8,192 channels.
constexpr std::uint64_t kQwenMatrices = std::uint64_t{30} * 32 * 128 * 128;
constexpr std::uint64_t kQwenInputs = std::uint64_t{30} * 3 * 8192;

INSTANTIATE_TEST_SUITE_P(
    Plans, KnownShapes,
    ::testing::Values(Sizes{"qwen3.6-35b-a3b", "f16", 2000, 20 * kKi, 4 * (kQwenMatrices + kQwenInputs),
                            4 * (kQwenMatrices + kQwenInputs)},
                      Sizes{"qwen3.6-35b-a3b", "f16, states=bf16", 2000, 20 * kKi, 4 * (kQwenMatrices + kQwenInputs),
                            2 * (kQwenMatrices + kQwenInputs)},
                      Sizes{"qwen3.6-35b-a3b", "int8, states=int8", 2000, 10 * kKi + 10 * 2 * 2 * 2,
                            4 * (kQwenMatrices + kQwenInputs), kQwenMatrices + 30 * 32 * 128 * 2 + 2 * kQwenInputs},
                      // 10 layers of 4 heads of 512, and 50 of 16 of 256 that keep 1,024 tokens.
                      Sizes{"gemma-4-31b", "f16", 2500, 80 * kKi + 800 * kKi, 0, 0},
                      Sizes{"deepseek-v3", "bf16", 2000, 61 * 576 * 2, 0, 0},  // latents: one row a layer
                      Sizes{"t5-base", "f16", 400, 2 * 12 * 768 * 2 * 2, 0, 0}),
    [](const auto& one) {
      std::string name = std::string(one.param.model) + "_" + one.param.kv;
      std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
      return name;
    });

// One sequence token by token in a cache that an engine made: each group holds what was planned for it at its
// fullest, and the memory is asked for to the byte.
TEST_P(KnownShapes, AreAllocatedAsPlanned) {
  const Sizes& sizes = GetParam();
  ShapeAlone model(shape_named(sizes.model));
  CountingBackend backend;
  EngineConfig config;
  config.kv = parse_kv_policy(sizes.kv, "test");
  config.context = model.config().reads_source() ? 512 : 4096;
  config.swap_bytes = 0;
  PlanInput input;
  input.groups = kv_groups(model.config(), config.kv);
  for (const KvGroup& group : input.groups) {
    input.source_groups += !group.keeps_state() && is_of_source(model.config(), group) ? 1 : 0;
  }
  input.context = sizes.tokens;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(plan.bytes_per_token, sizes.bytes_per_token);
  EXPECT_EQ(plan.state_bytes, sizes.state_bytes);
  EXPECT_EQ(plan.kept_state_bytes, sizes.kept_state_bytes);

  config.kv_bytes = 3 * plan.bytes_per_request;  // whole pages of every group have room
  const Engine engine(backend, model, config);
  EXPECT_EQ(engine.storage().bytes(), backend.bytes());
  const CacheConfig layout =
      cache_config(served_models(std::vector<EngineModel>{{&model, config.kv}}, engine.config()).front(), backend,
                   engine.config(), pages_of(std::vector<EngineModel>{{&model, config.kv}}, engine.config()));
  EXPECT_EQ(static_cast<std::uint64_t>(std::ssize(layout.pages.order) * layout.pages.bytes), backend.bytes());
  KvCache cache(layout);
  const std::vector<TokenId> source(static_cast<size_t>(model.config().reads_source() ? sizes.tokens : 0), 7);
  KvLease lease = cache.open(std::vector<TokenId>{1}, {{}, 0, 0, std::nullopt, source}).lease;
  std::vector<std::int64_t> most(plan.groups.size());
  for (std::int64_t at = 0; at < sizes.tokens; ++at) {
    const TokenId token[] = {static_cast<TokenId>(at)};
    ASSERT_TRUE(cache.reserve(lease, 1));
    for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], cache.pool(i).held());
    cache.commit_source(lease);
    cache.commit(lease, token);
    if (at + 1 == sizes.tokens / 16 * 16) cache.keep_state(lease, KvCache::Stay::kUntilEvicted);
  }
  std::uint64_t held = 0;
  for (size_t i = 0; i < most.size(); ++i) {
    const GroupPlan& planned = plan.groups[i];
    EXPECT_EQ(static_cast<std::uint64_t>(engine.storage().block_bytes(i)), planned.bytes_per_block) << i;
    const bool kept = planned.state_use == KvGroup::StateUse::kKept;
    const std::int64_t blocks = kept ? cache.pool(i).size() - cache.pool(i).free_blocks() : most[i];
    EXPECT_EQ(blocks, planned.blocks_per_request) << i;
    held += static_cast<std::uint64_t>(blocks) * planned.bytes_per_block;
  }
  EXPECT_EQ(held, plan.bytes_per_request);
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
