// The laws of a source: what is answered is read once, found again, beside others, in a pool that is too small, and
// the answer has the same bits.
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

std::vector<Cell> source_cells() {
  std::vector<Cell> cells = all_cells();
  std::erase_if(cells, [](const Cell& cell) { return !reads_source(cell); });
  return cells;
}

class SourceLaw : public ::testing::TestWithParam<Cell> {
 protected:
  // The prompt is the source.
  Trace alone(const Request& request) {
    Engine engine = world_.engine(world_.config());
    Recorder recorder(engine);
    const RequestId id = recorder.submit_as_is(request);
    engine.run();
    return recorder.of(id);
  }

  // Sources of several lengths, none of which begins like another.
  static std::vector<Request> several() {
    std::vector<Request> out;
    std::uint64_t seed = 60;
    for (const std::int64_t length : {40, 1, 97, 16, 33}) {
      ++seed;
      out.push_back(request_of(some_tokens(length, seed), 24, seed));
    }
    return out;
  }

  World world_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Everywhere, SourceLaw, ::testing::ValuesIn(source_cells()),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(SourceLaw, ASourceThatIsFoundEqualsCold) {
  Engine engine = world_.engine(world_.config());
  Recorder recorder(engine);
  for (const Request& request : several()) {
    const auto length = std::ssize(request.prompt);
    const Trace cold = alone(request);
    for (const std::int64_t found : {std::int64_t{0}, length}) {
      const RequestId id = recorder.submit_as_is(request);
      engine.run();
      EXPECT_EQ(recorder.of(id), cold);
      const RequestRecord& record = recorder.of(id).record;
      EXPECT_EQ(record.reuse.source_tokens, length);
      EXPECT_EQ(record.reuse.source_reused, found);
      EXPECT_EQ(record.computed_tokens, cold.record.computed_tokens - found - record.reuse.reused_tokens);
    }
  }
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

// With steps of fewer rows than a source has, too.
TEST_P(SourceLaw, SourcesOfOtherLengthsInOneBatchChangeNothing) {
  for (const int rows : {512, 64, 7}) {
    EngineConfig config = world_.config();
    config.scheduler.max_batch_tokens = rows;
    Engine engine = world_.engine(config);
    Recorder recorder(engine);
    std::vector<RequestId> ids;
    for (const Request& request : several()) ids.push_back(recorder.submit_as_is(request));
    engine.run();
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(recorder.of(ids[i]), alone(several()[i])) << rows << ", " << i;
  }
}

// The formats of one policy are nobody else's, of the source as of the text.
TEST_P(SourceLaw, OfSeveralPoliciesInOneBatchAreEachAsAlone) {
  EngineConfig config = world_.config();
  config.others = EngineConfig::OtherPolicies::kAny;
  Engine engine = world_.engine(config);
  Recorder recorder(engine);
  std::vector<Request> requests;
  std::vector<RequestId> ids;
  for (const char* policy : {"f32", "k=int8, v=f16", "int4, 1:f16", "bf16, window=16", "int8, recent=20:bf16"}) {
    requests.push_back(several()[0]);
    requests.back().kv = parse_kv_policy(policy, "test");
    ids.push_back(recorder.submit_as_is(requests.back()));
  }
  engine.run();
  for (size_t i = 0; i < ids.size(); ++i) {
    EngineConfig one = world_.config();
    one.kv = *requests[i].kv;
    Engine apart = world_.engine(one);
    Recorder alone(apart);
    const RequestId id = alone.submit_as_is(requests[i]);
    apart.run();
    EXPECT_EQ(recorder.of(ids[i]), alone.of(id)) << to_text(*requests[i].kv);
    EXPECT_EQ(recorder.of(ids[i]).record.reuse.source_reused, 0);
  }
}

TEST_P(SourceLaw, ComputedAnewForEveryTokenIsTheSame) {
  EngineConfig config = world_.config();
  config.mode = EngineConfig::Mode::kRecompute;
  Engine engine = world_.engine(config);
  Recorder recorder(engine);
  const Request request = several()[0];
  const RequestId id = recorder.submit_as_is(request);
  engine.run();
  EXPECT_EQ(recorder.of(id), alone(request));
  EXPECT_GT(recorder.of(id).record.computed_tokens, std::ssize(request.prompt) * request.max_tokens);
}

// However it is paused: its source may be gone when it comes back.
TEST_P(SourceLaw, PausedInATightPoolEqualsUndisturbed) {
  for (const bool swaps : {false, true}) {
    std::int64_t pauses = 0;
    for (std::int64_t blocks = 15; blocks > 6 && pauses == 0; --blocks) {
      EngineConfig config = world_.config();
      config.kv_bytes = world_.bytes_for(blocks);
      config.swap_bytes = swaps ? config.kv_bytes : 0;
      config.costs = swaps ? CostModel{1e3, 1e3, 1e12} : CostModel{1e-9, 1e3, 1};
      Engine engine = world_.engine(config);
      if (!engine.cache().fits_alone({40, 40})) break;
      Recorder recorder(engine);
      std::vector<Request> requests;
      std::vector<RequestId> ids;
      for (std::uint64_t i = 0; i < 5; ++i) {
        requests.push_back(request_of(some_tokens(20 + static_cast<std::int64_t>(i) * 5, 70 + i), 40, i));
        ids.push_back(recorder.submit_as_is(requests.back()));
      }
      engine.run();
      for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(recorder.of(ids[i]), alone(requests[i])) << blocks;
      EXPECT_EQ(engine.cache().pool(0).held(), 0);
      pauses = engine.scheduler().preemptions();
    }
    EXPECT_GT(pauses, 0) << "nobody was paused";
  }
}

TEST_P(SourceLaw, BranchesShareASourceAndEqualEachAlone) {
  Engine engine = world_.engine(world_.config());
  Recorder recorder(engine);
  Request request = several()[0];
  const std::vector<RequestId> ids =
      engine.submit(request, recorder.listener(), {{8, recorder.listener()}, {9, recorder.listener()}});
  engine.run();
  std::int64_t computed = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) request.sampling.seed = 7 + i;
    EXPECT_EQ(recorder.of(ids[i]), alone(request)) << i;
    computed += recorder.of(ids[i]).record.computed_tokens;
  }
  EXPECT_LT(computed, 2 * std::ssize(request.prompt) + 3 * request.max_tokens);  // it was read once
}

// In the middle of an answer, which then lives on without its original.
TEST_P(SourceLaw, AForkKeepsTheSource) {
  Engine engine = world_.engine(world_.config());
  Recorder recorder(engine);
  const Request request = several()[0];
  const RequestId parent = recorder.submit_as_is(request);
  for (int i = 0; i < 6; ++i) engine.step();
  const std::vector<TokenId> so_far = recorder.of(parent).tokens;
  const RequestId child = engine.fork(parent, 99, recorder.listener());
  engine.cancel(parent);
  engine.run();
  Request anew = request_of(world_.model().config().answer_start,
                            request.max_tokens - static_cast<std::int64_t>(so_far.size()), 99);
  anew.source = request.prompt;
  anew.prompt.insert(anew.prompt.end(), so_far.begin(), so_far.end());
  EXPECT_EQ(recorder.of(child), alone(anew));
}

// Two that come together read it once.
TEST_P(SourceLaw, TwoOfOneSourceReadItOnce) {
  Engine engine = world_.engine(world_.config());
  Recorder recorder(engine);
  Request one = several()[0];
  Request two = one;
  two.sampling.seed = 77;
  const RequestId first = recorder.submit_as_is(one);
  const RequestId second = recorder.submit_as_is(two);
  engine.run();
  EXPECT_EQ(recorder.of(first), alone(one));
  EXPECT_EQ(recorder.of(second), alone(two));
  EXPECT_EQ(engine.scheduler().counts().waiting_for_prefix, 1);
  EXPECT_EQ(recorder.of(second).record.reuse.source_reused, std::ssize(one.prompt));
}

// One token that differs, or another tenant: nothing is shared, of the source or of a text behind it.
TEST_P(SourceLaw, AnotherSourceSharesNothing) {
  Engine engine = world_.engine(world_.config());
  Recorder recorder(engine);
  Request request = request_of(some_tokens(50, 81), 6);
  request.source = some_tokens(40, 82);
  recorder.submit_as_is(request);
  engine.run();
  Request other = request;
  other.source.back() = (other.source.back() + 1) % 101;
  Request strange = request;
  strange.tenant.id = 1;
  strange.tenant.secret.bytes.fill(9);
  for (const Request& asked : {other, strange}) {
    const RequestId id = recorder.submit_as_is(asked);
    engine.run();
    EXPECT_EQ(recorder.of(id), alone(asked));
    EXPECT_EQ(recorder.of(id).record.reuse.source_reused, 0);
    EXPECT_EQ(recorder.of(id).record.reuse.reused_tokens, 0);
  }
  const RequestId again = recorder.submit_as_is(request);
  engine.run();
  EXPECT_EQ(recorder.of(again).record.reuse.source_reused, 40);
  EXPECT_EQ(recorder.of(again).record.reuse.reused_tokens, 48);
}

// A text that is cached is found although its source is gone: that is read again.
TEST_P(SourceLaw, EvictedItIsReadAgain) {
  EngineConfig config = world_.config();
  config.kv_bytes = world_.bytes_for(9);
  Engine engine = world_.engine(config);
  Recorder recorder(engine);
  const Request request = request_of(some_tokens(60, 83), 8);
  const Trace cold = alone(request);
  recorder.submit_as_is(request);
  for (std::uint64_t other = 0; other < 3; ++other) {
    recorder.submit_as_is(request_of(some_tokens(70, 84 + other), 8));
    engine.run();
  }
  const RequestId id = recorder.submit_as_is(request);
  engine.run();
  EXPECT_EQ(recorder.of(id), cold);
  EXPECT_EQ(recorder.of(id).record.reuse.source_stop, ReuseStop::kEvicted);
}

}  // namespace
}  // namespace kvasir::testing
