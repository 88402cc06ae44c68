// The laws of steps that are scheduled ahead: given to the backend before the host knows the tokens of the step
// before, they change no answer, whoever ends, comes, is cancelled, is preempted or looks meanwhile.
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

// Backends that sample tokens.
std::vector<Cell> sampling_cells() {
  std::vector<Cell> cells = scheduling_cells();
  std::erase_if(cells, [](const Cell& cell) { return cell.device == "cpu" || cell.device == "far"; });
  return cells;
}

// Collects what an engine notifies of, and looks at no logits: who does gets them, and no step is scheduled ahead.
// Seldom at the cache: who does makes the engine commit what it would have committed later.
class Listener {
 public:
  explicit Listener(Engine& engine) : engine_(engine) {}
  OnUpdate hear() {
    return [this](const Update& update) {
      Trace& trace = traces_[update.id];
      if (update.token >= 0) trace.tokens.push_back(update.token);
      trace.finish = update.finish;
      const bool looks = update.finish != FinishReason::kNone || ++updates_ % looks_at_ == 0;
      if (looks) {
        ASSERT_EQ(engine_.cache().problem(), std::nullopt);
      }
    };
  }
  RequestId submit(const Request& request) { return engine_.submit(with_source(engine_, request), hear()); }
  const Trace& of(RequestId id) { return traces_[id]; }
  void look_at_every(int update) { looks_at_ = update; }

 private:
  int looks_at_ = 101;
  int updates_ = 0;
  Engine& engine_;
  std::map<RequestId, Trace> traces_;
};

class AsyncLaw : public ::testing::TestWithParam<Cell> {
 protected:
  // Of many lengths and rules; every third may end at any token, and all may be in a steady batch.
  static std::vector<Request> requests() {
    std::vector<Request> out;
    for (std::uint32_t i = 0; i < 7; ++i) {
      Request request = request_of(some_tokens(20 + 7 * i, 300 + i), 12 + 5 * i, i);
      request.sampling.temperature = i == 1 ? 0.0F : 0.7F + 0.2F * static_cast<float>(i);
      if (i == 2) request.sampling.top_k = 9;
      if (i == 4) request.sampling.top_p = 0.8F;
      if (i % 3 == 0) request.stop_tokens = some_tokens(DecodeSlot::kMostStops, 900 + i);
      if (i == 3) request.min_tokens = 4;
      out.push_back(request);
    }
    return out;
  }

  void expect_as_alone(const Request& request, const Trace& heard) {
    const Trace alone = run_alone(world_, world_.config(), request);
    EXPECT_EQ(heard.tokens, alone.tokens) << "seed " << request.sampling.seed;
    EXPECT_EQ(heard.finish, alone.finish) << "seed " << request.sampling.seed;
  }

  // States are never a step ahead: they could not be kept where they were.
  std::int64_t least_ahead(std::int64_t steps) const { return world_.has_states() ? -1 : steps; }

  World world_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Everywhere, AsyncLaw, ::testing::ValuesIn(sampling_cells()),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(AsyncLaw, WhoeverEndsOrComesMeanwhileIsAnsweredAsAlone) {
  Engine engine = world_.engine(world_.config());
  Listener listener(engine);
  std::vector<RequestId> ids;
  for (const Request& request : requests()) {
    ids.push_back(listener.submit(request));
    for (int i = 0; i < 5; ++i) engine.step();
  }
  engine.run();
  for (size_t i = 0; i < ids.size(); ++i) expect_as_alone(requests()[i], listener.of(ids[i]));
  EXPECT_GT(engine.step_counts().ahead, least_ahead(10));
  EXPECT_GT(engine.step_counts().steady, least_ahead(10));
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

// Who asks for the cache or the sequences in the middle of a step makes nobody's answer another.
TEST_P(AsyncLaw, WhoeverLooksMeanwhileChangesNothing) {
  for (const int every : {1, 5}) {
    Engine engine = world_.engine(world_.config());
    Listener listener(engine);
    listener.look_at_every(every);
    std::vector<RequestId> ids;
    for (const Request& request : requests()) ids.push_back(listener.submit(request));
    for (int step = 0; !engine.idle(); ++step) {
      engine.step();
      if (step % 3 != 0) continue;
      engine.scheduler().each([&](const Sequence& sequence) {
        EXPECT_EQ(sequence.num_output_tokens(), std::ssize(listener.of(sequence.id).tokens));
      });
    }
    for (size_t i = 0; i < ids.size(); ++i) expect_as_alone(requests()[i], listener.of(ids[i]));
    EXPECT_GT(engine.step_counts().ahead, least_ahead(10));
  }
}

TEST_P(AsyncLaw, WhoeverIsCancelledInFlightDisturbsNobody) {
  Engine engine = world_.engine(world_.config());
  Listener listener(engine);
  std::vector<RequestId> ids;
  for (const Request& request : requests()) ids.push_back(listener.submit(request));
  for (int i = 0; i < 6; ++i) engine.step();
  engine.cancel(ids[2]);
  engine.step();
  engine.cancel(ids[5]);
  engine.run();
  EXPECT_EQ(listener.of(ids[2]).finish, FinishReason::kCancelled);
  EXPECT_EQ(listener.of(ids[5]).finish, FinishReason::kCancelled);
  for (const size_t i : {0U, 1U, 3U, 4U, 6U}) expect_as_alone(requests()[i], listener.of(ids[i]));
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
}

// What was computed in flight is found by whoever continues it, and a row too many of somebody who ended is not.
TEST_P(AsyncLaw, WhatWasScheduledAheadIsFoundAndEqualsCold) {
  Engine engine = world_.engine(world_.config());
  Listener listener(engine);
  for (const Request& request : requests()) {
    const RequestId first = listener.submit(request);
    engine.run();
    Request next = request;
    next.prompt.insert(next.prompt.end(), listener.of(first).tokens.begin(), listener.of(first).tokens.end());
    next.prompt.push_back(17);
    next.sampling.seed += 50;
    const RequestId second = listener.submit(next);
    engine.run();
    expect_as_alone(next, listener.of(second));
  }
}

TEST_P(AsyncLaw, PausedInATightPoolEqualsUndisturbed) {
  std::int64_t pauses = 0;
  for (std::int64_t blocks = 20; blocks > 5 && pauses == 0; --blocks) {
    EngineConfig config = world_.config();
    config.kv_bytes = world_.bytes_for(blocks);
    Engine engine = world_.engine(config);
    if (!engine.cache().fits_alone(20 + 42 + 42, {})) break;
    Listener listener(engine);
    std::vector<RequestId> ids;
    for (const Request& request : requests()) ids.push_back(listener.submit(request));
    engine.run();
    for (size_t i = 0; i < ids.size(); ++i) expect_as_alone(requests()[i], listener.of(ids[i]));
    EXPECT_GT(engine.step_counts().ahead, least_ahead(0));
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
    const SchedulerCounts& counts = engine.scheduler().counts();
    pauses = counts.recomputes + counts.swaps + counts.waits;
  }
  // Windows leave room to all, and so may recent tokens in pages of their own.
  EXPECT_TRUE(pauses > 0 || !GetParam().windows.empty() || GetParam().policy.recent > 0);
}

// A steady batch commits its tokens a block at a time, or some twenty where blocks are larger.
TEST_P(AsyncLaw, BlocksOfAnySizeGiveTheSameAnswers) {
  std::vector<Trace> expected;
  for (const Request& request : requests()) expected.push_back(run_alone(world_, world_.config(), request));
  for (const int block_tokens : {1, 5, 64}) {
    EngineConfig config = world_.config();
    config.block_tokens = block_tokens;
    Engine engine = world_.engine(config);
    Listener listener(engine);
    std::vector<RequestId> ids;
    for (const Request& request : requests()) ids.push_back(listener.submit(request));
    engine.run();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(listener.of(ids[i]).tokens, expected[i].tokens) << block_tokens << " tokens a block, request " << i;
      EXPECT_EQ(listener.of(ids[i]).finish, expected[i].finish) << block_tokens << " tokens a block, request " << i;
    }
    EXPECT_GT(engine.step_counts().ahead, least_ahead(10));
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
  }
}

// Sequences of several policies are in one steady batch, each over its own groups.
TEST_P(AsyncLaw, OfSeveralPoliciesInOneBatchAreEachAsAlone) {
  EngineConfig config = world_.config();
  config.others = EngineConfig::OtherPolicies::kAny;
  const auto in_keys = [](const LayerSpec& layer) { return !layer.attention.none() && !layer.attention.kv.has_v(); };
  const bool apart = std::ranges::none_of(world_.model().config().layers, in_keys);
  const char* other = apart ? "k=int8, v=f16, window=24" : "int8, window=24";
  const std::vector<KvPolicy> policies{config.kv, parse_kv_policy("f32", "test"), parse_kv_policy(other, "test")};
  Engine engine = world_.engine(config);
  Listener listener(engine);
  std::vector<Request> all = requests();
  std::vector<RequestId> ids;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].kv = policies[i % policies.size()];
    ids.push_back(listener.submit(all[i]));
  }
  engine.run();
  for (size_t i = 0; i < all.size(); ++i) {
    EngineConfig alone = world_.config();
    alone.kv = *all[i].kv;
    const Trace expected = run_alone(world_, alone, all[i]);
    EXPECT_EQ(listener.of(ids[i]).tokens, expected.tokens) << i;
    EXPECT_EQ(listener.of(ids[i]).finish, expected.finish) << i;
  }
  EXPECT_GT(engine.step_counts().ahead, least_ahead(10));
}

// Whoever is notified of a token may cancel himself, those who were notified before him, and those who will be: no
// token comes behind that.
TEST_P(AsyncLaw, WhoeverCancelsWhenNotifiedDisturbsNobodyElse) {
  for (const size_t canceller : {1U, 4U}) {
    Engine engine = world_.engine(world_.config());
    Listener listener(engine);
    std::vector<RequestId> ids;
    std::map<size_t, std::vector<TokenId>> when_cancelled;
    for (size_t i = 0; i < requests().size(); ++i) {
      const OnUpdate hear = listener.hear();
      ids.push_back(engine.submit(with_source(engine, requests()[i]), [&, hear, i, canceller](const Update& update) {
        hear(update);
        if (i != canceller || update.token < 0 || std::ssize(listener.of(update.id).tokens) != 9) return;
        for (const size_t other : {size_t{0}, size_t{2}, size_t{5}, i}) {
          engine.cancel(ids[other]);
          when_cancelled[other] = listener.of(ids[other]).tokens;
        }
      }));
    }
    engine.run();
    EXPECT_EQ(listener.of(ids[canceller]).finish, FinishReason::kCancelled);
    EXPECT_EQ(listener.of(ids[canceller]).tokens.size(), 9U);
    for (const size_t other : {2U, 5U}) EXPECT_EQ(listener.of(ids[other]).finish, FinishReason::kCancelled);
    for (const auto& [i, tokens] : when_cancelled) EXPECT_EQ(listener.of(ids[i]).tokens, tokens);
    for (const size_t i : {1U, 3U, 4U, 6U}) {
      if (i != canceller) expect_as_alone(requests()[i], listener.of(ids[i]));
    }
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
  }
}

TEST_P(AsyncLaw, TwoEnginesOfOneBackendInTurnsAreEachAsAlone) {
  Engine one = world_.engine(world_.config());
  Engine other = world_.engine(world_.config());
  Listener to_one(one);
  Listener to_other(other);
  std::vector<RequestId> ids;
  for (size_t i = 0; i < requests().size(); ++i) {
    ids.push_back((i % 2 == 0 ? to_one : to_other).submit(requests()[i]));
  }
  for (int turn = 0; !one.idle() || !other.idle(); ++turn) {
    (turn / 3 % 2 == 0 ? one : other).step();
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    expect_as_alone(requests()[i], (i % 2 == 0 ? to_one : to_other).of(ids[i]));
  }
  EXPECT_GT(one.step_counts().ahead + other.step_counts().ahead, least_ahead(0));
}

TEST_P(AsyncLaw, AForkInFlightIsAsAlone) {
  Engine engine = world_.engine(world_.config());
  Listener listener(engine);
  const Request request = request_of(some_tokens(30, 8), 24, 1);
  const RequestId first = listener.submit(request);
  for (int i = 0; i < 9; ++i) engine.step();
  const std::vector<TokenId> common = listener.of(first).tokens;
  const RequestId second = engine.fork(first, 77, listener.hear());
  const std::vector<TokenId> at_fork = listener.of(first).tokens;
  engine.run();
  EXPECT_GE(at_fork.size(), common.size());
  expect_as_alone(request, listener.of(first));
  Request anew = request;
  anew.prompt.insert(anew.prompt.end(), at_fork.begin(), at_fork.end());
  anew.max_tokens -= std::ssize(at_fork);
  anew.sampling.seed = 77;
  expect_as_alone(anew, listener.of(second));
}

}  // namespace
}  // namespace kvasir::testing
