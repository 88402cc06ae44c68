// The laws of shared blocks: found, forked, half found, evicted and computed again, all the same bits.
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

class SharingLaw : public ::testing::TestWithParam<Cell> {
 protected:
  // The request in an engine that has already answered `before`.
  Trace after(const std::vector<Request>& before, const Request& request) {
    Engine engine = world_.engine(config_);
    Recorder recorder(engine);
    for (const Request& earlier : before) {
      recorder.submit(earlier);
      engine.run();
    }
    const RequestId id = recorder.submit(request);
    engine.run();
    return recorder.of(id);
  }

  World world_{GetParam()};
  EngineConfig config_ = world_.config();
};

INSTANTIATE_TEST_SUITE_P(Everywhere, SharingLaw, ::testing::ValuesIn(all_cells()),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(SharingLaw, APrefixHitEqualsCold) {
  const Request request = request_of(some_tokens(100, 1), 14);
  const Trace warm = after({request}, request);
  EXPECT_EQ(warm, run_alone(world_, config_, request));
  if (world_.has_states()) {
    EXPECT_EQ(warm.record.reuse.reused_tokens, 96);  // states lie at ends of blocks
    EXPECT_EQ(warm.record.reuse.stop, ReuseStop::kShortTail);
  } else if (GetParam().windows.empty()) {
    // 96 tokens in whole blocks, and three of the fourth: the first answer made a block of the rest.
    EXPECT_EQ(warm.record.reuse.reused_tokens, 99);
    EXPECT_EQ(warm.record.reuse.stop, ReuseStop::kWholePrompt);
  }
}

TEST_P(SharingLaw, AHitInTheMiddleOfABlockEqualsCold) {
  std::vector<TokenId> other = some_tokens(100, 1);
  std::vector<TokenId> tokens = other;
  for (size_t i = 57; i < tokens.size(); ++i) tokens[i] = (tokens[i] + 1) % 101;
  const Request request = request_of(tokens, 10);
  const Trace warm = after({request_of(other, 10)}, request);
  EXPECT_EQ(warm, run_alone(world_, config_, request));
  if (world_.has_states()) {
    // None was kept before 96. The second text shows where both part, and the third finds one there.
    EXPECT_EQ(warm.record.reuse.reused_tokens, 0);
    EXPECT_EQ(warm.record.reuse.stop, ReuseStop::kStateBefore);
    EXPECT_EQ(warm.record.reuse.rows_upto, 48);
    tokens[60] = (tokens[60] + 1) % 101;
    const Request third = request_of(tokens, 10);
    const Trace parted = after({request_of(other, 10), request}, third);
    EXPECT_EQ(parted, run_alone(world_, config_, third));
    EXPECT_EQ(parted.record.reuse.reused_tokens, 48) << describe(parted.record.reuse);
  } else if (GetParam().windows.empty()) {
    EXPECT_EQ(warm.record.reuse.reused_tokens, 57);
    EXPECT_EQ(warm.record.reuse.stop, ReuseStop::kDiverged);
  }
}

TEST_P(SharingLaw, AConversationThatGrowsEqualsCold) {
  const Request first = request_of(some_tokens(45, 3), 12);
  std::vector<TokenId> longer = first.prompt;
  const Trace answer = run_alone(world_, config_, first);
  longer.insert(longer.end(), answer.tokens.begin(), answer.tokens.end());
  const std::vector<TokenId> more = some_tokens(20, 4);
  longer.insert(longer.end(), more.begin(), more.end());
  const Request second = request_of(longer, 12);
  const Trace warm = after({first}, second);
  EXPECT_EQ(warm, run_alone(world_, config_, second));
  if (GetParam().windows.empty()) {
    EXPECT_GE(warm.record.reuse.reused_tokens, 48);
  }
}

TEST_P(SharingLaw, EvictedAndComputedAgainEqualsCold) {
  const Request request = request_of(some_tokens(60, 5), 10);
  config_.kv_bytes = world_.bytes_for(8);  // room for one such request, and little more
  const Trace again = after({request, request_of(some_tokens(90, 6), 10)}, request);
  EXPECT_EQ(again, run_alone(world_, world_.config(), request));
  if (GetParam().windows.empty()) {
    EXPECT_LT(again.record.reuse.reused_tokens, 59);
  }
}

TEST_P(SharingLaw, APoolWithNoBlockToSpareStillReusesAndEqualsCold) {
  const Request request = request_of(some_tokens(60, 7), 4);
  config_.kv_bytes = world_.bytes_for(4);  // exactly what the request needs: no room for a copy of a half-found block
  std::vector<TokenId> tokens = request.prompt;
  tokens.back() = (tokens.back() + 1) % 101;
  const Request other = request_of(tokens, 4);
  EXPECT_EQ(after({request}, other), run_alone(world_, world_.config(), other));
}

TEST_P(SharingLaw, AForkEqualsTheSameTokensComputedAnew) {
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  const Request request = request_of(some_tokens(40, 8), 20);
  const RequestId parent = recorder.submit(request);
  for (int i = 0; i < 6; ++i) engine.step();  // in the middle of a block, in the middle of an answer
  const std::vector<TokenId> so_far = recorder.of(parent).tokens;
  const RequestId child = engine.fork(parent, 99, recorder.listener());
  engine.run();

  EXPECT_EQ(recorder.of(parent), run_alone(world_, config_, request));
  Request anew = request_of(request.prompt, 20 - static_cast<std::int64_t>(so_far.size()), 99);
  anew.prompt.insert(anew.prompt.end(), so_far.begin(), so_far.end());
  EXPECT_EQ(recorder.of(child), run_alone(world_, config_, anew));
  EXPECT_NE(recorder.of(child).tokens, recorder.of(parent).tokens);
  EXPECT_GE(engine.cache().stats().copied_blocks, 1);
}

// The second waits until the first has computed what both begin with.
TEST_P(SharingLaw, TwoThatComeWithTheSamePrefixComputeItOnceAndAgree) {
  config_.scheduler.max_batch_tokens = 64;
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  const Request one = request_of(some_tokens(50, 9), 12, 1);
  const Request two = request_of(some_tokens(50, 9), 12, 2);
  const RequestId first = recorder.submit(one);
  const RequestId second = recorder.submit(two);
  engine.run();
  EXPECT_EQ(recorder.of(first), run_alone(world_, world_.config(), one));
  EXPECT_EQ(recorder.of(second), run_alone(world_, world_.config(), two));
  // A source takes the first step's rows, and with them all of the prompt: nobody asks before it is there.
  EXPECT_EQ(engine.scheduler().counts().waiting_for_prefix, world_.source_tokens() > 0 ? 0 : 1);
  if (GetParam().windows.empty()) {
    EXPECT_GE(recorder.of(second).record.reuse.reused_tokens, 48);
  }
}

// Long enough that a whole split of the context is read once for all: kernels take another path then.
TEST_P(SharingLaw, ManyBehindOneLongPrefixEqualEachAlone) {
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::vector<TokenId> prompt = some_tokens(272, 31);
    const std::vector<TokenId> own = some_tokens(3 + 5 * static_cast<std::int64_t>(i), 40 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    requests.push_back(request_of(prompt, 4, i));
  }
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  recorder.submit(requests[0]);
  engine.run();
  std::vector<RequestId> ids;
  for (const Request& request : requests) ids.push_back(recorder.submit(request));
  engine.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(recorder.of(ids[i]), run_alone(world_, config_, requests[i])) << i;
    if (GetParam().windows.empty()) {
      EXPECT_GE(recorder.of(ids[i]).record.reuse.reused_tokens, 272) << i;
    }
  }
}

// Further answers to a prompt draw from the same logits, and then go their own way through shared blocks.
TEST_P(SharingLaw, EachBranchEqualsTheSameRequestWithItsSeed) {
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  const std::vector<TokenId> prompt = some_tokens(53, 12);
  const std::vector<RequestId> ids =
      engine.submit(with_source(engine, request_of(prompt, 14, 1)), recorder.listener(),
                    {{2, recorder.listener()}, {3, recorder.listener()}});
  engine.run();
  ASSERT_EQ(ids.size(), 3U);
  std::int64_t computed = 0;
  for (std::uint64_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(recorder.of(ids[i]), run_alone(world_, config_, request_of(prompt, 14, i + 1))) << i;
    computed += recorder.of(ids[i]).record.computed_tokens;
  }
  EXPECT_EQ(computed, 53 + 3 * 13 + world_.source_tokens());  // the prompt once
}

TEST_P(SharingLaw, APinnedPrefixSurvivesPressureAndEqualsCold) {
  Request marked = request_of(some_tokens(40, 13), 10);
  marked.breakpoints.push_back({40, std::chrono::seconds(300)});
  const Request one = request_of(some_tokens(70, 14), 20);
  const Request two = request_of(some_tokens(70, 15), 20);
  config_.kv_bytes = world_.bytes_for(9);  // three for the pin, six for each of the others
  Request again = marked;
  again.prompt.push_back(7);
  const Trace pinned = after({marked, one, two}, again);
  EXPECT_EQ(pinned, run_alone(world_, world_.config(), again));
  EXPECT_GE(pinned.record.reuse.reused_tokens, world_.has_states() ? 32 : 40) << describe(pinned.record.reuse);
  marked.breakpoints.clear();
  EXPECT_LT(after({marked, one, two}, again).record.reuse.reused_tokens, 40);  // it was the pin that kept it
}

// Turns of two chats in little memory. Each turn's prompt differs from what is cached where its thoughts began, and a
// text's later states have those before them go first.
TEST_P(SharingLaw, TurnsThatDropWhatWasThoughtEqualCold) {
  config_.kv_bytes = world_.bytes_for(12);
  Engine engine = world_.engine(config_);
  Recorder recorder(engine);
  std::array<std::vector<TokenId>, 2> chats{some_tokens(36, 31), some_tokens(36, 32)};
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    for (std::vector<TokenId>& chat : chats) {
      Request request = request_of(chat, 20);
      request.breakpoints.push_back({std::ssize(chat)});
      const RequestId id = recorder.submit(request);
      engine.run();
      EXPECT_EQ(recorder.of(id), run_alone(world_, world_.config(), request)) << turn;
      for (const TokenId token : some_tokens(22, 33 + turn)) chat.push_back(token);
    }
  }
}

TEST_P(SharingLaw, APublicTextSharedByTenantsEqualsCold) {
  config_.public_texts.push_back(some_tokens(50, 15));
  Engine engine = world_.engine(config_);
  if (world_.source_tokens() > 0) {
    EXPECT_THROW(engine.warm_public_texts(), Error);  // nothing stands behind a source that all have
    return;
  }
  engine.warm_public_texts();
  Recorder recorder(engine);
  std::vector<TokenId> prompt = some_tokens(50, 15);
  for (const TokenId token : some_tokens(20, 16)) prompt.push_back(token);
  for (std::uint32_t tenant = 1; tenant <= 2; ++tenant) {
    Request request = request_of(prompt, 10, tenant);
    request.tenant.id = tenant;
    request.tenant.secret.bytes.fill(static_cast<std::uint8_t>(tenant));
    const RequestId id = recorder.submit(request);
    engine.run();
    EXPECT_EQ(recorder.of(id), run_alone(world_, world_.config(), request));
    EXPECT_EQ(recorder.of(id).record.reuse.reused_tokens, 48) << describe(recorder.of(id).record.reuse);
  }
}

TEST_P(SharingLaw, EveryEvictionPolicyGivesTheSameAnswer) {
  const Request request = request_of(some_tokens(60, 10), 8);
  const Trace expected = run_alone(world_, config_, request);
  config_.kv_bytes = world_.bytes_for(9);
  for (const char* policy : {"lru", "fifo", "cost"}) {
    config_.eviction = policy;
    EXPECT_EQ(after({request, request_of(some_tokens(70, 11), 8)}, request), expected) << policy;
  }
}

}  // namespace
}  // namespace kvasir::testing
