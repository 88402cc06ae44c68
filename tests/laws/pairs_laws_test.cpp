// The laws of pairs: what a request may ask for, in a pool too small for it and its neighbours. Whatever it asked, a
// pause leaves no mark on its answer. Each law makes sure that the very requests that asked were paused.
#include <algorithm>
#include <set>

#include "grammar/constraint.h"
#include "grammar/json_schema.h"
#include "laws/harness.h"

namespace kvasir::testing {
namespace {

// The grammar as a sampler takes it.
class Form : public TokenConstraint {
 public:
  enum class Masks : std::uint8_t { kAtOnce, kByWorker };  // by a worker: every other one

  Form(grammar::GrammarConstraint inner, Masks masks) : inner_(std::move(inner)), masks_(masks) {}
  bool prepare(std::size_t& work) override {
    constexpr std::size_t kMoreThanAStepHas = std::size_t{1} << 30;
    if (known_) return true;
    if (masks_ == Masks::kByWorker && accepted_ % 2 == 0 && work < kMoreThanAStepHas) {
      work = 0;
      return false;
    }
    return known_ = inner_.prepare(work);
  }
  void mask(std::span<float> logits) override { inner_.mask(logits); }
  void accept(TokenId token) override {
    inner_.accept(token);
    ++accepted_;
    known_ = false;
  }
  bool ended() const override { return inner_.ended(); }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<Form>(inner_.apart(), masks_); }

 private:
  grammar::GrammarConstraint inner_;
  Masks masks_;
  int accepted_ = 0;
  bool known_ = false;
};

// Token i is the printable character i; the last is the end.
std::vector<std::string> spelled_tokens() {
  std::vector<std::string> tokens;
  for (char c = ' '; c <= '~'; ++c) tokens.emplace_back(1, c);
  tokens.resize(101);
  return tokens;
}

std::shared_ptr<const TokenConstraint> form_of(const char* schema, Form::Masks masks) {
  return std::make_shared<Form>(
      grammar::GrammarConstraint(grammar::compile_json_schema(schema),
                                 std::make_shared<grammar::TokenMasker>(std::make_shared<const grammar::Vocabulary>(
                                     spelled_tokens(), std::vector<TokenId>{100}))),
      masks);
}

// Lists of more integers, and of more words, than any answer here has; of the words none may come twice, and many
// would.
std::shared_ptr<const TokenConstraint> long_list_of_integers(Form::Masks masks = Form::Masks::kAtOnce) {
  return form_of(R"({"type": "array", "items": {"type": "integer"}, "minItems": 100})", masks);
}
std::shared_ptr<const TokenConstraint> long_set_of_words(Form::Masks masks) {
  return form_of(R"({"type": "array", "items": {"type": "string", "pattern": "^[ab]{0,3}$"},
                     "minItems": 15, "uniqueItems": true})",
                 masks);
}

// How often it paused in this way after its first token.
std::int64_t pauses(const Trace& trace, Preemption::How how) {
  return std::ranges::count_if(trace.record.pauses, [&](const Preemption& pause) {
    return pause.how == how && pause.of_tokens >= trace.record.reuse.prompt_tokens;
  });
}

class PairLaw : public ::testing::TestWithParam<Cell> {
 protected:
  // Twelve blocks, and one way to pause that is cheaper than all others.
  EngineConfig tight(Preemption::How how) const {
    EngineConfig config = world_.config();
    config.kv_bytes = world_.bytes_for(12);
    config.swap_bytes = how == Preemption::How::kSwap ? config.kv_bytes : 0;
    config.costs = how == Preemption::How::kSwap ? CostModel{1e3, 1e3, 1e12} : CostModel{1e-9, 1e3, 1};
    return config;
  }

  // What a window dropped cannot be saved: such a sequence is computed again, or waits.
  // Windows hold less and leave it to others: there a pause may not be needed, and what was dropped cannot be saved.
  static bool windowed() {
    return !GetParam().windows.empty() || GetParam().policy.recent > 0 || !GetParam().policy.retention.full();
  }
  std::int64_t pauses_of(const std::vector<Trace>& traces, Preemption::How how) const {
    std::int64_t count = 0;
    for (const Trace& trace : traces) {
      count += pauses(trace, how);
      if (how != Preemption::How::kSwap || !windowed()) continue;
      count += pauses(trace, Preemption::How::kRecompute) + pauses(trace, Preemption::How::kWait);
    }
    return count;
  }

  Trace alone(Request request, std::uint64_t seed) {
    request.sampling.seed = seed;
    return run_alone(world_, world_.config(), request);
  }

  // The request, with an answer for each further seed, between others that fill the pool: its answers, the request's
  // own first. Each, and each of the others, must be the one it gets alone.
  std::vector<Trace> in_a_crowd(Engine& engine, const Request& asked, const std::vector<std::uint64_t>& seeds) {
    Recorder recorder(engine);
    std::vector<Request> others;
    for (std::uint64_t i = 0; i < 3; ++i) others.push_back(request_of(some_tokens(kPrompt, 200 + i), 40, i));
    // The oldest never pauses; of equals the youngest that runs does.
    std::vector<RequestId> other_ids{recorder.submit(others[0]), recorder.submit(others[1])};
    std::vector<Branch> branches;
    for (const std::uint64_t seed : seeds) branches.push_back({seed, recorder.listener()});
    const std::vector<RequestId> ids =
        engine.submit(with_source(engine, asked), recorder.listener(), std::move(branches));
    other_ids.push_back(recorder.submit(others[2]));
    engine.run();
    for (size_t i = 0; i < others.size(); ++i) {
      EXPECT_EQ(recorder.of(other_ids[i]), alone(others[i], i)) << "another " << i;
    }
    std::vector<Trace> out;
    for (size_t i = 0; i < ids.size(); ++i) {
      out.push_back(recorder.of(ids[i]));
      EXPECT_EQ(out.back(), alone(asked, i == 0 ? asked.sampling.seed : seeds[i - 1])) << "answer " << i;
    }
    EXPECT_EQ(engine.swap().used(), 0U);
    return out;
  }

  // The same, undisturbed but for pauses of this kind, of which there is at least one of the request's own.
  std::vector<Trace> in_a_crowd(Preemption::How how, const Request& asked,
                                const std::vector<std::uint64_t>& seeds = {}) {
    Engine engine = world_.engine(tight(how));
    std::vector<Trace> out = in_a_crowd(engine, asked, seeds);
    EXPECT_TRUE(windowed() || pauses_of(out, how) > 0) << name_of(how);
    const SchedulerCounts& counts = engine.scheduler().counts();
    if (how == Preemption::How::kRecompute) {
      EXPECT_EQ(counts.swaps + counts.waits, 0);
    } else if (world_.has_states()) {  // each branch saves one, and host memory may have no room for all
      EXPECT_TRUE(windowed() || counts.swaps > 0);
    } else if (!windowed()) {
      EXPECT_GT(counts.swaps, counts.recomputes);  // a branch that holds nothing alone has nothing to save
    }
    return out;
  }

  World world_{GetParam()};
  static constexpr std::int64_t kPrompt = 40;
  static constexpr std::array kBothWays{Preemption::How::kRecompute, Preemption::How::kSwap};
};

INSTANTIATE_TEST_SUITE_P(Everywhere, PairLaw, ::testing::ValuesIn(scheduling_cells()),
                         [](const auto& cell) { return cell.param.name(); });

TEST_P(PairLaw, PausedBranchesEqualEachAlone) {
  for (const Preemption::How how : kBothWays) in_a_crowd(how, request_of(some_tokens(37, 21), 40, 7), {8, 9});
}

// Each needs a copy of the prompt's last block at the same step, and there is no room for all of these.
TEST_P(PairLaw, BranchesWithoutRoomToPartEqualEachAlone) {
  const std::vector<std::uint64_t> seeds{8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  for (const Preemption::How how : kBothWays) in_a_crowd(how, request_of(some_tokens(37, 31), 40, 7), seeds);
}

// The same, and those that could part are cancelled: what the others come back to is only what was saved of them,
// in the very step in which their copies were to be made.
TEST_P(PairLaw, SwappedOutBeforeItsCopyWasMadeEqualsUndisturbed) {
  Engine engine = world_.engine(tight(Preemption::How::kSwap));
  Recorder recorder(engine);
  const Request asked = request_of(some_tokens(37, 32), 30, 7);
  const RequestId oldest = recorder.submit(request_of(some_tokens(90, 33), 60, 1));
  std::vector<Branch> branches;
  for (std::uint64_t seed = 8; seed < 18; ++seed) branches.push_back({seed, recorder.listener()});
  const std::vector<RequestId> ids =
      engine.submit(with_source(engine, asked), recorder.listener(), std::move(branches));
  while (engine.swap().used() == 0 && !engine.idle()) engine.step();
  std::vector<RequestId> parted;
  engine.scheduler().each([&](const Sequence& s) {
    if (s.id != oldest && s.saved == nullptr) parted.push_back(s.id);
  });
  for (const RequestId id : parted) engine.cancel(id);
  engine.run();
  int finished = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (recorder.of(ids[i]).finish == FinishReason::kCancelled) continue;
    EXPECT_EQ(recorder.of(ids[i]), alone(asked, 7 + i)) << i;
    ++finished;
  }
  EXPECT_TRUE(finished > 0 || windowed());
}

TEST_P(PairLaw, APausedFormIsKept) {
  Request asked = request_of(some_tokens(kPrompt, 22), 40);
  asked.constraint = long_list_of_integers();
  for (const Preemption::How how : kBothWays) {
    const std::vector<Trace> answers = in_a_crowd(how, asked, {6});
    for (const Trace& answer : answers) EXPECT_EQ(answer.tokens.size(), 40U) << answer.record.failure;
  }
}

// Which elements a set has is state that a pause, a branch and another thread's masks must not lose.
TEST_P(PairLaw, APausedSetHasNoElementTwice) {
  Request asked = request_of(some_tokens(kPrompt, 22), 40);
  for (const Form::Masks masks : {Form::Masks::kAtOnce, Form::Masks::kByWorker}) {
    asked.constraint = long_set_of_words(masks);
    Engine engine =
        world_.engine(tight(masks == Form::Masks::kAtOnce ? Preemption::How::kRecompute : Preemption::How::kSwap));
    for (const Trace& answer : in_a_crowd(engine, asked, {6})) {
      EXPECT_EQ(answer.tokens.size(), 40U) << answer.record.failure;
      std::string text;
      for (const TokenId token : answer.tokens) text += spelled_tokens()[static_cast<size_t>(token)];
      std::set<std::string> seen;
      for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1)) {
        const size_t end = text.find('"', at + 1);
        if (end == std::string::npos) break;
        EXPECT_TRUE(seen.insert(text.substr(at, end - at)).second) << text;
        at = end;
      }
      EXPECT_GT(seen.size(), 3U) << text;
    }
  }
}

// Whether it pauses depends on how fast its masks are found; what it says does not.
TEST_P(PairLaw, AFormWhoseMasksAreFoundElsewhereIsKept) {
  Request asked = request_of(some_tokens(kPrompt, 22), 40);
  asked.constraint = long_list_of_integers(Form::Masks::kByWorker);
  Engine engine = world_.engine(tight(Preemption::How::kSwap));
  const std::vector<Trace> answers = in_a_crowd(engine, asked, {6});
  for (const Trace& answer : answers) EXPECT_EQ(answer.tokens.size(), 40U) << answer.record.failure;
  asked.constraint = long_list_of_integers();
  EXPECT_EQ(alone(asked, asked.sampling.seed), answers[0]);
}

TEST_P(PairLaw, ProbabilitiesAreTheSameAfterAPause) {
  Request asked = request_of(some_tokens(kPrompt, 23), 40);
  asked.logprobs = 4;
  for (const Preemption::How how : kBothWays) {
    EXPECT_EQ(in_a_crowd(how, asked).front().logprobs.size(), 40U);
  }
}

// Half the vocabulary would end the answer: what holds it back must know how long it already is.
TEST_P(PairLaw, TheLeastNumberOfTokensOutlastsAPause) {
  Request asked = request_of(some_tokens(kPrompt, 24), 60);
  asked.min_tokens = 38;
  for (TokenId token = 0; token < 101; token += 2) asked.stop_tokens.push_back(token);
  for (const Preemption::How how : kBothWays) {
    const Trace answer = in_a_crowd(how, asked).front();
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    EXPECT_GE(answer.tokens.size(), 38U);
    EXPECT_LT(answer.tokens.size(), 60U);
  }
}

TEST_P(PairLaw, PenaltiesOutlastAPause) {
  Request asked = request_of(some_tokens(kPrompt, 25), 40);
  asked.sampling.frequency_penalty = 0.7F;
  asked.sampling.repetition_penalty = 1.3F;
  for (const Preemption::How how : kBothWays) in_a_crowd(how, asked);
}

// Pinned blocks stay where they are: what is saved begins behind them.
TEST_P(PairLaw, SwappedAwayFromItsPinEqualsUndisturbed) {
  Request asked = request_of(some_tokens(kPrompt, 26), 40);
  asked.breakpoints.push_back({32, std::chrono::seconds(3600)});
  Engine engine = world_.engine(tight(Preemption::How::kSwap));
  const std::vector<Trace> answer = in_a_crowd(engine, asked, {});
  // Rows may have the room that is there for states: then nobody need pause.
  EXPECT_TRUE(world_.has_states() || pauses_of(answer, Preemption::How::kSwap) > 0);
  EXPECT_EQ(answer.front().record.pinned_tokens, 32);
  if (!windowed()) {
    EXPECT_EQ(engine.pins().blocks(), 2);
  }
  Recorder recorder(engine);
  const RequestId again = recorder.submit(asked);
  engine.run();
  EXPECT_GE(recorder.of(again).record.reuse.reused_tokens, 32) << describe(recorder.of(again).record.reuse);
  EXPECT_EQ(recorder.of(again), alone(asked, asked.sampling.seed));
}

// The oldest needs nearly the whole pool: first the other is swapped out, then the pin yields that it would have come
// back to. What was saved leads nowhere, and everything is computed again.
TEST_P(PairLaw, SwappedOutAndItsPinLostEqualsUndisturbed) {
  EngineConfig config = tight(Preemption::How::kSwap);
  Engine engine = world_.engine(config);
  Recorder recorder(engine);
  const Request large = request_of(some_tokens(36, 27), 140);
  Request marked = request_of(some_tokens(40, 28), 100);
  marked.breakpoints.push_back({32, std::chrono::seconds(3600)});
  const RequestId oldest = recorder.submit(large);
  const RequestId other = recorder.submit(marked);
  engine.run();
  EXPECT_TRUE(windowed() || pauses_of({recorder.of(other)}, Preemption::How::kSwap) > 0);
  EXPECT_EQ(recorder.of(other).record.pinned_tokens, 32);
  EXPECT_EQ(recorder.of(oldest), alone(large, large.sampling.seed));
  EXPECT_EQ(recorder.of(other), alone(marked, marked.sampling.seed));
  // Rows may have the room of states, or of a source: there the pin may stay.
  if (!windowed() && !world_.has_states() && world_.source_tokens() == 0) {
    EXPECT_EQ(engine.pins().size(), 0);
    EXPECT_GT(recorder.of(other).record.computed_tokens, 40 + 99);
  }
}

// Cancelled in host memory, or while another branch is there: the rest go on as if nothing had been.
TEST_P(PairLaw, BranchesThatAreSwappedOutAndCancelledDisturbNobody) {
  const Request asked = request_of(some_tokens(37, 29), 40, 7);
  const std::vector<std::uint64_t> seeds{7, 8, 9};
  const Request other = request_of(some_tokens(36, 30), 60, 1);
  enum class Who { kSwapped, kRunning };
  for (const Who who : {Who::kSwapped, Who::kRunning}) {
    Engine engine = world_.engine(tight(Preemption::How::kSwap));
    Recorder recorder(engine);
    const RequestId oldest = recorder.submit(other);
    const std::vector<RequestId> ids = engine.submit(with_source(engine, asked), recorder.listener(),
                                                     {{8, recorder.listener()}, {9, recorder.listener()}});
    RequestId victim = 0;
    while (victim == 0 && !engine.idle()) {
      engine.step();
      bool saved = false;
      engine.scheduler().each([&](const Sequence& s) { saved |= s.saved != nullptr; });
      engine.scheduler().each([&](const Sequence& s) {
        const bool fits = who == Who::kSwapped ? s.saved != nullptr : saved && s.lease.valid();
        if (fits && s.id != oldest) victim = s.id;
      });
    }
    if (windowed() && victim == 0) continue;  // nothing could be saved
    ASSERT_NE(victim, 0U);
    EXPECT_GT(engine.swap().used(), 0U);
    engine.cancel(victim);
    engine.step();
    EXPECT_EQ(recorder.of(victim).finish, FinishReason::kCancelled);
    engine.run();
    EXPECT_EQ(recorder.of(oldest), alone(other, 1));
    for (size_t i = 0; i < ids.size(); ++i) {
      const Trace& trace = recorder.of(ids[i]);
      const Trace expected = alone(asked, seeds[i]);
      if (ids[i] != victim) {
        EXPECT_EQ(trace, expected) << i;
        continue;
      }
      ASSERT_LT(trace.tokens.size(), expected.tokens.size());
      EXPECT_TRUE(std::ranges::equal(trace.tokens, std::span(expected.tokens).first(trace.tokens.size())));
    }
    EXPECT_EQ(engine.swap().used(), 0U);
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
  }
}

}  // namespace
}  // namespace kvasir::testing
