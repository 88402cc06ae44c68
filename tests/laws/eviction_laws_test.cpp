// The laws of eviction: what is evicted is lost to its own sequence and to nobody else, and memory is given back.
// laws_test.cpp and pressure_laws_test.cpp run in these cells as well.
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

class EvictionLaw : public ::testing::TestWithParam<Cell> {
 protected:
  // In f16, whatever the cell.
  std::int64_t kv_token_bytes() const {
    std::int64_t bytes = 0;
    for (const KvGroup& group : kv_groups(world_.model().config(), {})) bytes += bytes_per_token(group);
    return bytes;
  }

  World world_{GetParam()};
  EngineConfig config_ = world_.config();
};

INSTANTIATE_TEST_SUITE_P(Evicting, EvictionLaw, ::testing::ValuesIn(evicting_cells()),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(EvictionLaw, ABudgetThatIsNeverOutgrownChangesNoBit) {
  const Request request = request_of(some_tokens(70, 1), 30);
  const Trace evicting = run_alone(world_, config_, request);
  KvPolicy policy = GetParam().policy;
  policy.evict.tokens = 1000;
  config_.kv = policy;
  const Trace roomy = run_alone(world_, config_, request);
  EXPECT_EQ(roomy.record.evicted_tokens, 0);
  policy.evict = {};
  policy.retention = {};
  config_.kv = policy;
  const Trace plain = run_alone(world_, config_, request);
  EXPECT_EQ(roomy, plain);
  EXPECT_FALSE(evicting.logits == plain.logits);
  // The budget and up to sixteen tokens since the last point are left.
  EXPECT_GT(evicting.record.evicted_tokens, 70 - 36);
  EXPECT_EQ(evicting.logits.front(), plain.logits.front());  // nothing goes before the prompt is whole
}

TEST_P(EvictionLaw, WhatIsEvictedIsPrivateAndNeverFound) {
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  const Request request = request_of(some_tokens(70, 2), 20);
  const RequestId first = recorder.submit(request);
  const RequestId together = recorder.submit(request);
  engine.run();
  const RequestId again = recorder.submit(request);
  engine.run();
  for (const RequestId id : {first, together, again}) {
    EXPECT_EQ(recorder.of(id).record.reuse.reused_tokens, 0);
    EXPECT_EQ(recorder.of(id).record.reuse.stop, ReuseStop::kPrivate);
    EXPECT_EQ(recorder.of(id), recorder.of(first));
  }
  EXPECT_EQ(engine.cache().stats().published_blocks, 0);
  EXPECT_EQ(engine.cache().policy_stats(0).blocks, 0);  // nothing outlives its sequence
}

TEST_P(EvictionLaw, ASequenceHoldsNoMoreThanItsBudgetAndAnInterval) {
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  recorder.submit(request_of(some_tokens(100, 3), 60));
  std::int64_t later = 0;
  const auto held = [&] {
    std::int64_t blocks = 0;
    const KvCache& cache = engine.cache();
    for (const size_t group : cache.groups_of(0)) blocks += cache.pool(group).held() * cache.pool(group).weight();
    return blocks;
  };
  std::int64_t tokens = 0;
  while (!engine.idle()) {
    engine.step();
    engine.scheduler().each([&](const Sequence& s) { tokens = s.lease.valid() ? s.lease.length() : 0; });
    if (tokens > 100) later = std::max(later, held());
  }
  // 100 tokens are seven blocks; 20 or 24 and sixteen more are three.
  if (!GetParam().windows.empty()) return;  // a layer of its own window gives back by itself
  EXPECT_GT(later, 0);
  // Groups of their own layers or heads each have a last block that is not full.
  const TokenEviction& evict = GetParam().policy.evict;
  const bool split =
      evict.budgets != TokenEviction::Budgets::kUniform || evict.heads != TokenEviction::Heads::kUniform;
  EXPECT_LE(later, static_cast<std::int64_t>(world_.bytes_for(split ? 4 : 3)));
}

TEST_P(EvictionLaw, BranchesEqualEachAlone) {
  const Request request = request_of(some_tokens(50, 4), 40, 7);
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  const std::vector<RequestId> ids =
      engine.submit(request, recorder.listener(), {{8, recorder.listener()}, {9, recorder.listener()}});
  engine.run();
  for (size_t i = 0; i < ids.size(); ++i) {
    Request one = request;
    one.sampling.seed = 7 + i;
    EXPECT_EQ(recorder.of(ids[i]), run_alone(world_, world_.config(), one)) << i;
  }
}

TEST_P(EvictionLaw, AForkEqualsItsOriginalAlone) {
  const Request request = request_of(some_tokens(50, 5), 40, 7);
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  const RequestId first = recorder.submit(request);
  for (int i = 0; i < 25; ++i) engine.step();
  const RequestId fork = engine.fork(first, 7, recorder.listener());
  engine.run();
  const std::vector<TokenId>& whole = recorder.of(first).tokens;
  const std::vector<TokenId>& rest = recorder.of(fork).tokens;
  ASSERT_FALSE(rest.empty());
  EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), whole.rbegin()));
}

TEST_P(EvictionLaw, AnswersFitThatWouldNotWithoutEviction) {
  if (!GetParam().windows.empty()) return;
  config_.kv_bytes = world_.bytes_for(6);
  const Request request = request_of(some_tokens(40, 6), 100);
  const Trace trace = run_alone(world_, config_, request);
  EXPECT_EQ(trace.finish, FinishReason::kLength);
  EXPECT_EQ(trace, run_alone(world_, world_.config(), request));
}

// Beside others that keep everything, or a window, or evict in another way, over one memory.
TEST_P(EvictionLaw, AMixedBatchEqualsEachAlone) {
  config_.others = EngineConfig::OtherPolicies::kAny;
  std::vector<Request> requests;
  for (const char* policy :
       {"f16", "int8, evict=h2o:20", "evict=snapkv:24, sinks=2", "f16, window=24", "int4, evict=fifo:20",
        "bf16, evict=tova:50%, budgets=pyramid", "evict=h2o:20, heads=adaptive", "int4, recent=20:bf16, sinks=4"}) {
    const auto i = static_cast<std::uint64_t>(requests.size());
    requests.push_back(request_of(some_tokens(30 + 9 * static_cast<std::int64_t>(i), i % 3), 30, i));
    requests.back().kv = parse_kv_policy(policy, "test");
  }
  const std::int64_t token = kv_token_bytes();
  for (const std::int64_t blocks : {400, 24}) {
    config_.kv_bytes = static_cast<std::uint64_t>(16 * blocks * token);
    Engine engine = world_.engine(config_);
    Recorder recorder(engine);
    std::vector<RequestId> ids;
    for (const Request& request : requests) ids.push_back(recorder.submit(request));
    engine.run();
    for (size_t i = 0; i < requests.size(); ++i) {
      EngineConfig one = world_.config();
      one.kv = *requests[i].kv;
      EXPECT_EQ(recorder.of(ids[i]), run_alone(world_, one, requests[i])) << to_text(*requests[i].kv);
    }
    EXPECT_EQ(engine.cache().problem(), std::nullopt);
  }
}

TEST_P(EvictionLaw, MarksKeepNothingOfIt) {
  Request request = request_of(some_tokens(70, 7), 20);
  request.breakpoints.push_back({32, std::chrono::seconds(3600)});
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  const RequestId id = recorder.submit(request);
  engine.run();
  EXPECT_EQ(engine.pins().size(), 0);
  EXPECT_EQ(recorder.of(id).record.pinned_tokens, 0);
  request.breakpoints.clear();
  EXPECT_EQ(recorder.of(id), run_alone(world_, world_.config(), request));
}

}  // namespace
}  // namespace kvasir::testing
