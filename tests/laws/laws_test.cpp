// The first promise: the cache never changes the answer. Each law runs in every cell of the matrix, bit for bit.
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

class Law : public ::testing::TestWithParam<Cell> {
 protected:
  World world_{GetParam()};
  EngineConfig config_ = world_.config();
};

INSTANTIATE_TEST_SUITE_P(Everywhere, Law, ::testing::ValuesIn(all_cells()),
                         [](const auto& cell) { return cell.param.name(); });

INSTANTIATE_TEST_SUITE_P(Evicting, Law, ::testing::ValuesIn(evicting_cells()),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(Law, CachedEqualsRecomputedForEveryToken) {
  const Request request = request_of(some_tokens(30, 1), 24);
  const Trace cached = run_alone(world_, config_, request);
  config_.mode = EngineConfig::Mode::kRecompute;
  const Trace recomputed = run_alone(world_, config_, request);
  EXPECT_EQ(cached, recomputed);
  EXPECT_EQ(cached.record.computed_tokens, 30 + 23 + world_.source_tokens());
  EXPECT_GT(recomputed.record.computed_tokens, 10 * cached.record.computed_tokens);
}

TEST_P(Law, PagedEqualsContiguous) {
  const Request request = request_of(some_tokens(290, 2), 12);  // beyond one split of the context
  const Trace paged = run_alone(world_, config_, request);
  config_.block_tokens = 512;  // the whole sequence in one block
  EXPECT_EQ(paged, run_alone(world_, config_, request));
}

TEST_P(Law, AnyBlockSizeAgrees) {
  const Request request = request_of(some_tokens(75, 3), 10);
  const Trace expected = run_alone(world_, config_, request);
  for (const int block_tokens : {1, 3, 8, 20, 32, 64}) {
    config_.block_tokens = block_tokens;
    EXPECT_EQ(expected, run_alone(world_, config_, request)) << block_tokens;
  }
}

TEST_P(Law, AnyOrderOfFreeBlocksAgrees) {
  const Request request = request_of(some_tokens(75, 4), 10);
  const Trace expected = run_alone(world_, config_, request);
  for (const std::uint64_t seed : {1, 2, 3}) {
    config_.shuffle_blocks = seed;
    EXPECT_EQ(expected, run_alone(world_, config_, request)) << seed;
  }
}

TEST_P(Law, AnyChunkingAgrees) {
  const Request request = request_of(some_tokens(270, 5), 6);
  const Trace whole = run_alone(world_, config_, request);
  for (const int chunk : {1, 7, 16, 100}) {
    config_.scheduler.chunk_tokens = chunk;
    EXPECT_EQ(whole, run_alone(world_, config_, request)) << chunk;
  }
}

TEST_P(Law, ABatchEqualsEachAlone) {
  std::vector<Request> requests;
  for (const std::int64_t length : {1, 5, 16, 17, 33, 64, 100, 130}) {
    const auto n = static_cast<std::uint64_t>(length);
    requests.push_back(request_of(some_tokens(length, n), 6 + length % 7, n));
  }
  config_.scheduler.max_batch_tokens = 96;  // prompts are cut up and mixed with answers
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(recorder.submit(request));
  engine.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(recorder.of(ids[i]), run_alone(world_, world_.config(), requests[i])) << requests[i].prompt.size();
  }
}

TEST_P(Law, PreemptedAndResumedEqualsUndisturbed) {
  std::vector<Request> requests;
  // Where tokens are evicted only those outgrow their first blocks that begin short.
  const std::int64_t prompt = GetParam().policy.evict.on() ? 18 : 40;
  for (std::uint64_t i = 0; i < 5; ++i) {
    requests.push_back(request_of(some_tokens(prompt, 100 + i), 80 - prompt, i));
  }
  std::int64_t preemptions = 0;
  for (std::int64_t blocks = 12; preemptions == 0; --blocks) {  // each needs five; windows leave room to others
    config_.kv_bytes = world_.bytes_for(blocks);
    Engine engine = world_.engine(config_);
    ASSERT_TRUE(engine.cache().fits_alone(80)) << "nothing was ever preempted";
    Recorder recorder(engine);
    std::vector<RequestId> ids;
    for (const Request& request : requests) ids.push_back(recorder.submit(request));
    engine.run();
    preemptions = engine.scheduler().preemptions();
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(recorder.of(ids[i]), run_alone(world_, world_.config(), requests[i])) << i;
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
