// Drafters that look texts up, what is verified of what they say, and that no answer, hit or tenant notices.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/draft/draft_plan.h"
#include "engine/draft/text_drafters.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "engine/sampling_backend.h"
#include "model/known_models.h"
#include "model/random_model.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

using Verify = SpeculationConfig::Verify;

std::vector<TokenId> random_text(std::int64_t count, std::uint64_t seed, std::uint64_t vocab) {
  std::vector<TokenId> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<TokenId>(mix(seed, static_cast<std::uint64_t>(i), 0) % vocab));
  return out;
}

// --- TokenIndex

// By trying every place of what is kept.
int longest_match(std::span<const TokenId> text, std::span<const TokenId> tokens) {
  int best = 0;
  for (size_t end = 1; end < text.size(); ++end) {
    int length = 0;
    while (length < 64 && static_cast<size_t>(length) < std::min(end, tokens.size()) &&
           text[end - 1 - static_cast<size_t>(length)] == tokens[tokens.size() - 1 - static_cast<size_t>(length)])
      ++length;
    best = std::max(best, length);
  }
  return best;
}

// Few tokens, so that runs come again; longer than the ring, so that it goes round.
TEST(TokenIndexTest, ContinuesWhatStoodBefore) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<TokenId> text = random_text(700, seed, 5 + seed % 40);
    TokenIndex index(512);
    index.append(text);
    Draft draft;
    index.continue_text(text, 6, draft);
    const std::span<const TokenId> kept = std::span(text).last(512);
    const int longest = longest_match(kept, text);
    EXPECT_TRUE(longest >= 2 || draft.empty()) << seed;
    if (draft.empty()) continue;
    ++found;
    // What is proposed stood behind the last tokens somewhere.
    std::vector<TokenId> whole(text.end() - 2, text.end());
    whole.insert(whole.end(), draft.tokens.begin(), draft.tokens.begin() + 1);
    EXPECT_NE(std::ranges::search(kept, whole).begin(), kept.end()) << seed;
    ASSERT_EQ(draft.tokens.size(), draft.confidence.size());
    for (const float sure : draft.confidence) EXPECT_TRUE(sure > 0 && sure <= 1);
  }
  EXPECT_GT(found, 100);
}

TEST(TokenIndexTest, FollowsTheLongestMatchAndNoneAcrossTexts) {
  TokenIndex index(256);
  const std::vector<TokenId> first{1, 2, 3, 4, 5, 6, 50, 51};
  const std::vector<TokenId> second{9, 9, 3, 4, 5, 6, 60, 61, TokenIndex::kEnd, 70};
  index.append(first);
  index.append(TokenIndex::kEnd);
  index.append(second);
  Draft draft;
  index.continue_text(std::vector<TokenId>{1, 2, 3, 4, 5, 6}, 4, draft);
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{50, 51}));
  draft.clear();
  index.continue_text(std::vector<TokenId>{7, 9, 9, 3, 4, 5, 6}, 4, draft);
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{60, 61}));
  EXPECT_EQ(index.nearest(std::vector<TokenId>{3, 4, 5, 6}, 0).end, 6);
  EXPECT_EQ(index.nearest(std::vector<TokenId>{3, 4, 5, 6}, 14).end, 15);
}

// --- what pays

TEST(DraftPlanTest, VerifiesWhatPays) {
  Draft sure;
  Draft doubtful;
  for (TokenId t = 0; t < 8; ++t) sure.add(t, 0.97F);
  for (TokenId t = 0; t < 8; ++t) doubtful.add(t, 0.2F);
  Acceptance acceptance;
  const std::vector<DraftOffer> offers{{&sure, &acceptance}, {&doubtful, &acceptance}};
  const auto lengths = [&](double row, int most) {
    PassCosts costs;
    for (int rows = 1; rows <= 40; ++rows) costs.measure(rows, 1e-3 + row * rows);
    DraftPlan plan;
    std::vector<size_t> out;
    for (const std::uint64_t tokens : plan.choose(offers, {2, 2, most}, costs).tokens) {
      out.push_back(static_cast<size_t>(std::popcount(tokens)));
    }
    return out;
  };
  EXPECT_EQ(lengths(1e-7, 64)[0], 8U);                       // rows cost nearly nothing
  EXPECT_LE(lengths(1e-7, 64)[1], 2U);                       // and yet not what is wrong
  EXPECT_EQ(lengths(1e-7, 3), (std::vector<size_t>{3, 0}));  // the likeliest first
  const auto some = lengths(2e-4, 64);
  EXPECT_GT(some[0], 0U);
  EXPECT_EQ(some[1], 0U);
  EXPECT_EQ(lengths(1, 64), (std::vector<size_t>{0, 0}));  // a row costs as much as a step
}

TEST(DraftPlanTest, LearnsWhatIsRightOfASequence) {
  Acceptance acceptance;
  const double before = acceptance.of(0.95F);
  for (int i = 0; i < 60; ++i) acceptance.learn(0.95F, false);
  EXPECT_LT(acceptance.of(0.95F), 0.1);
  EXPECT_EQ(acceptance.of(0.1F), Acceptance().of(0.1F));  // how sure it was makes the difference
  for (int i = 0; i < 100; ++i) acceptance.learn(0.95F, true);
  EXPECT_GT(acceptance.of(0.95F), before);
}

TEST(PassCostsTest, EstimatesWhatWasNotMeasured) {
  PassCosts costs;
  EXPECT_FALSE(costs.known());
  costs.set_row_seconds(1e-4);
  costs.measure(1, 1e-2);
  EXPECT_DOUBLE_EQ(costs.seconds(1), 1e-2);
  EXPECT_DOUBLE_EQ(costs.seconds(5), 1e-2 + 4e-4);
  costs.measure(8, 2.4e-2);
  EXPECT_NEAR(costs.seconds(4), 1.6e-2, 1e-9);
  for (int i = 0; i < 60; ++i) costs.measure(8, 1e-2);
  EXPECT_NEAR(costs.seconds(8), 1e-2, 1e-4);
  for (int rows = 1; rows < 5000; rows += 3) EXPECT_GT(costs.seconds(rows), 0);
}

// --- engines

class SpeculationTest : public ::testing::Test {
 protected:
  static Request request(std::vector<TokenId> prompt, std::int64_t answer, float temperature) {
    Request out;
    out.prompt = std::move(prompt);
    out.max_tokens = answer;
    out.sampling.temperature = temperature;
    out.sampling.seed = 11;
    return out;
  }
  // A text that comes three times, and once more in part.
  static std::vector<TokenId> copying(std::uint64_t seed) {
    const std::vector<TokenId> text = random_text(14, seed, 90);
    std::vector<TokenId> out;
    for (int i = 0; i < 2; ++i) out.insert(out.end(), text.begin(), text.end());
    return out;
  }
  static EngineConfig with(std::vector<std::string> drafters, Verify verify = Verify::kAll) {
    EngineConfig config;
    config.speculation.drafters = std::move(drafters);
    config.speculation.verify = verify;
    return config;
  }
  Heard answer(Engine& engine, const Request& asked) {
    Heard heard;
    engine.submit(asked, into(heard));
    while (!engine.idle()) {
      engine.step();
      EXPECT_EQ(engine.cache().problem(), std::nullopt);
    }
    return heard;
  }
  Heard plain(const Request& asked) {
    Engine engine(*backend_, *model_, {});
    return answer(engine, asked);
  }
  static std::int64_t accepted(const Heard& heard) {
    std::int64_t out = 0;
    for (const DraftRecord& one : heard.record.drafts) out += one.accepted;
    return out;
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 64);
};

// Greedy answers of random weights repeat themselves: their own text is the best guess.
TEST_F(SpeculationTest, OwnTextComesInFewerSteps) {
  const Request asked = request(copying(1), 120, 0);
  const Heard expected = plain(asked);
  Engine engine(*backend_, *model_, with({"ngram"}));
  const Heard heard = answer(engine, asked);
  EXPECT_EQ(heard.tokens, expected.tokens);
  EXPECT_LT(heard.record.steps, expected.record.steps);
  EXPECT_GT(accepted(heard), 10);
  EXPECT_EQ(heard.record.drafts.at(0).drafter, "ngram");
  EXPECT_EQ(engine.speculator().counts().drafters.at(0).accepted, accepted(heard));
}

TEST_F(SpeculationTest, SampledAnswersAreTheSame) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Request asked = request(copying(seed), 40, 0.7F);
    asked.sampling.seed = seed;
    const Heard expected = plain(asked);
    std::vector<TokenId> predicted = expected.tokens;
    for (size_t i = 7; i < predicted.size(); i += 9) predicted[i] = (predicted[i] + 1) % 90;
    predicted.erase(predicted.begin() + 20, predicted.begin() + 23);
    asked.prediction = std::make_shared<const std::vector<TokenId>>(predicted);
    Engine engine(*backend_, *model_, with({"prediction", "ngram", "suffix"}));
    const Heard first = answer(engine, asked);
    EXPECT_EQ(first.tokens, expected.tokens);
    EXPECT_GT(accepted(first), 15);
    asked.prediction = nullptr;
    const Heard again = answer(engine, asked);  // the tenant has had it before
    EXPECT_EQ(again.tokens, expected.tokens);
    EXPECT_GT(accepted(again), 15);
    EXPECT_TRUE(std::ranges::any_of(again.record.drafts, [](const auto& one) { return one.drafter == "suffix"; }));
  }
}

// By what was measured on this machine: whatever that is, answers are the same, beside others.
TEST_F(SpeculationTest, WhatPaysChangesNoAnswer) {
  std::vector<Request> asked;
  std::vector<Heard> expected;
  for (std::uint64_t i = 0; i < 5; ++i) {
    asked.push_back(request(copying(i), 30 + 20 * static_cast<std::int64_t>(i), i % 2 == 0 ? 0.0F : 0.9F));
    expected.push_back(plain(asked.back()));
  }
  for (const bool samples : {false, true}) {
    std::unique_ptr<Backend> backend = make_backend({"cpu", 1, "auto"});
    if (samples) backend = std::make_unique<SamplingBackend>(std::move(backend));
    const auto model = load_golden("gqa", *backend, 64);
    Engine engine(*backend, *model, with({"prediction", "ngram", "suffix"}, Verify::kWhatPays));
    for (int turn = 0; turn < 2; ++turn) {
      std::vector<Heard> heard(asked.size());
      for (size_t i = 0; i < asked.size(); ++i) engine.submit(asked[i], into(heard[i]));
      engine.run();
      for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(heard[i].tokens, expected[i].tokens) << i;
    }
    EXPECT_EQ(engine.cache().problem(), std::nullopt);
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
  }
}

// A backend that samples runs ahead as it does without drafters, for as long as nothing pays.
TEST_F(SpeculationTest, WhoHasNoGoodGuessesRunsAhead) {
  SamplingBackend sampling(make_backend({"cpu", 1, "auto"}));
  const auto model = load_golden("gqa", sampling, 64);
  const Request asked = request(random_text(20, 4, 90), 60, 3.0F);  // noise: nothing can be foretold
  Engine engine(sampling, *model, with({"prediction", "ngram", "suffix"}, Verify::kWhatPays));
  const Heard heard = answer(engine, asked);
  EXPECT_EQ(heard.tokens, plain(asked).tokens);
  EXPECT_GT(engine.step_counts().ahead, 40);
}

TEST_F(SpeculationTest, NobodySeesAnothersTexts) {
  Engine engine(*backend_, *model_, with({"suffix"}));
  Request asked = request(random_text(25, 3, 90), 30, 0.8F);
  asked.tenant.id = 1;
  asked.tenant.secret.bytes.fill(1);
  answer(engine, asked);
  EXPECT_GT(accepted(answer(engine, asked)), 10);
  EXPECT_GT(engine.speculator().text_bytes(1), 0U);
  Request other = asked;
  other.tenant.id = 2;
  other.tenant.secret.bytes.fill(2);
  EXPECT_TRUE(answer(engine, other).record.drafts.empty());
  Request salted = asked;  // another division of the same tenant's
  salted.tenant.secret.bytes.fill(3);
  EXPECT_TRUE(answer(engine, salted).record.drafts.empty());
}

TEST_F(SpeculationTest, TextsOfATenantAreBounded) {
  SuffixDrafter drafter;
  Sequence sequence(1, request(random_text(30000, 5, 90), 1, 0), {});
  for (int i = 0; i < 40; ++i) {
    sequence.request.tenant.secret.bytes.fill(static_cast<std::uint8_t>(i % 10));
    drafter.finished(sequence);
  }
  EXPECT_LE(drafter.bytes_of(0), SuffixDrafter::kMostTexts * SuffixDrafter::kMostTokens * 20);
}

TEST_F(SpeculationTest, RequestsSayWhatTheyWant) {
  Engine engine(*backend_, *model_, with({"ngram"}));
  Request asked = request(copying(1), 60, 0);
  asked.speculative.most = 0;
  EXPECT_TRUE(answer(engine, asked).record.drafts.empty());
  asked.speculative.most = 1;
  const Heard one = answer(engine, asked);
  EXPECT_EQ(one.record.drafts.at(0).proposed, one.record.drafts.at(0).drafts);
  asked.speculative.drafters = {"suffix"};
  try {
    engine.submit(asked, {});
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "speculative: there is no drafter 'suffix' here; use off, or one of ngram");
  }
}

// What a form forbids is never verified: here nothing of the draft may come.
TEST_F(SpeculationTest, WhatAFormForbidsIsNotProposed) {
  class Few : public TokenConstraint {
   public:
    void mask(std::span<float> logits) override { std::ranges::fill(logits.subspan(60), -1e30F); }
    void accept(TokenId token) override {
      if (token >= 60) fail_input("too large", "form");
    }
    bool ended() const override { return false; }
    std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<Few>(); }
  };
  Request asked = request(copying(1), 40, 0.8F);
  asked.constraint = std::make_shared<Few>();
  const Heard expected = plain(asked);
  std::vector<TokenId> predicted = expected.tokens;
  for (size_t i = 3; i < predicted.size(); i += 4) predicted[i] = 70;
  asked.prediction = std::make_shared<const std::vector<TokenId>>(predicted);
  Engine engine(*backend_, *model_, with({"prediction"}));
  const Heard heard = answer(engine, asked);
  EXPECT_EQ(heard.tokens, expected.tokens);
  ASSERT_FALSE(heard.record.drafts.empty());
  EXPECT_EQ(heard.record.drafts[0].accepted, heard.record.drafts[0].proposed);
}

// --- a model that drafts

class DraftModelTest : public SpeculationTest {
 protected:
  static EngineConfig with_model(Verify verify = Verify::kAll) {
    EngineConfig config = with({"model"}, verify);
    config.speculation.model = 1;
    config.speculation.most = 5;
    return config;
  }
  std::vector<Request> some_requests() const {
    std::vector<Request> out;
    for (std::uint64_t i = 0; i < 4; ++i) {
      out.push_back(request(random_text(12 + 9 * static_cast<std::int64_t>(i), i, 90), 50, i == 0 ? 0.0F : 0.8F));
      out.back().sampling.seed = i;
    }
    out[2].sampling.frequency_penalty = 0.4F;
    return out;
  }
  std::unique_ptr<Model> small() const {
    return make_random_model(
        parse_shape("layers=2,hidden=32,ffn=48,heads=4,kv_heads=2,head_dim=8,vocab=101,context=200"), *backend_,
        {64, {}}, 3);
  }
};

// The same weights draw the same tokens: all guesses are right, and most tokens come with them.
TEST_F(DraftModelTest, TheSameModelIsAlwaysRight) {
  const auto twin = load_golden("gqa", *backend_, 64);
  const std::vector<EngineModel> more{{twin.get(), KvPolicy{}}};
  for (const Request& asked : some_requests()) {
    Engine engine(*backend_, *model_, with_model(), more);
    const Heard expected = plain(asked);
    const Heard heard = answer(engine, asked);
    EXPECT_EQ(heard.tokens, expected.tokens);
    const DraftRecord& drafts = heard.record.drafts.at(0);
    const bool penalty = asked.sampling.frequency_penalty != 0;  // which it does not know
    EXPECT_TRUE(penalty || drafts.accepted == drafts.proposed);
    EXPECT_GT(drafts.accepted, 20);
    // Its rows are found again as the large model's are.
    const PolicyId policy = engine.policies().all().front()->model == 1 ? engine.policies().all().front()->id
                                                                        : engine.policies().all().back()->id;
    EXPECT_EQ(engine.cache().reusable(heard.tokens, {}), 0);
    std::vector<TokenId> text = asked.prompt;
    text.insert(text.end(), heard.tokens.begin(), heard.tokens.end());
    EXPECT_GE(engine.cache().reusable(text, {{}, 0, policy}), std::ssize(text) / 16 * 16 - 16);
  }
}

// Another model is mostly wrong; several at once, with memory for all and for too few, and those that fork and pause.
TEST_F(DraftModelTest, AnotherModelChangesNoAnswer) {
  const auto other = small();
  const std::vector<EngineModel> more{{other.get(), KvPolicy{}}};
  const std::vector<Request> asked = some_requests();
  for (const std::int64_t blocks : {200, 16}) {
    for (const Verify verify : {Verify::kAll, Verify::kWhatPays}) {
      EngineConfig config = with_model(verify);
      const KvGroup group = kv_groups(model_->config(), config.kv).front();
      config.kv_bytes = static_cast<std::uint64_t>(blocks * make_layout(group, 16).block_bytes());
      Engine engine(*backend_, *model_, config, more);
      std::vector<Heard> heard(asked.size());
      for (size_t i = 0; i < asked.size(); ++i) engine.submit(asked[i], into(heard[i]));
      Heard branch;
      while (!engine.idle()) {
        engine.step();
        ASSERT_EQ(engine.cache().problem(), std::nullopt);
      }
      for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(heard[i].tokens, plain(asked[i]).tokens) << blocks << i;
      for (size_t g = 0; g < engine.cache().groups(); ++g) EXPECT_EQ(engine.cache().pool(g).held(), 0);
      if (blocks == 16) {
        EXPECT_GT(engine.scheduler().preemptions() + engine.scheduler().counts().waits, 0);
      } else if (verify == Verify::kAll) {  // what pays depends on the machine
        EXPECT_GT(engine.speculator().counts().drafters.at(0).proposed, 0);
      }
    }
  }
}

// Beside texts, on a backend that samples, with branches.
TEST_F(DraftModelTest, CompetesWithTexts) {
  SamplingBackend sampling(make_backend({"cpu", 1, "auto"}));
  const auto large = load_golden("gqa", sampling, 64);
  const auto twin = load_golden("gqa", sampling, 64);
  const std::vector<EngineModel> more{{twin.get(), KvPolicy{}}};
  EngineConfig config = with({"ngram", "suffix", "model"}, Verify::kWhatPays);
  config.speculation.model = 1;
  Engine engine(sampling, *large, config, more);
  const Request asked = request(copying(3), 60, 0.5F);
  std::vector<Heard> heard(3);
  engine.submit(asked, into(heard[0]), {{21, into(heard[1])}, {22, into(heard[2])}});
  engine.run();
  EXPECT_EQ(heard[0].tokens, plain(asked).tokens);
  Request second = asked;
  second.sampling.seed = 22;
  EXPECT_EQ(heard[2].tokens, plain(second).tokens);
  EXPECT_EQ(engine.cache().problem(), std::nullopt);
}

// --- the cache

// Chats that come back turn after turn, several at once, under little memory: what each finds is the same, to the
// token, whatever was guessed.
TEST_F(SpeculationTest, HitsAreAsManyAsWithoutDrafts) {
  const auto trace = [this](std::vector<std::string> drafters) {
    EngineConfig config = with(std::move(drafters));
    const KvGroup group = kv_groups(model_->config(), config.kv).front();
    config.kv_bytes = static_cast<std::uint64_t>(60 * make_layout(group, 16).block_bytes());
    Engine engine(*backend_, *model_, config);
    std::vector<std::vector<TokenId>> chats(8);
    std::vector<std::int64_t> hits;
    std::vector<TokenId> said;
    for (std::uint64_t turn = 0; turn < 120; ++turn) {
      std::vector<TokenId>& chat = chats[mix(turn, 1, 2) % chats.size()];
      if (chat.size() > 180) chat.clear();
      const std::vector<TokenId> next = random_text(9, turn % 6, 90);
      chat.insert(chat.end(), next.begin(), next.end());
      const Heard heard = answer(engine, request(chat, 12 + static_cast<std::int64_t>(turn % 9), 0));
      hits.push_back(heard.record.reuse.reused_tokens);
      chat.insert(chat.end(), heard.tokens.begin(), heard.tokens.end());
      said.insert(said.end(), heard.tokens.begin(), heard.tokens.end());
    }
    const std::int64_t evicted = engine.cache().stats().evicted_blocks;
    return std::tuple(hits, said, evicted);
  };
  const auto without = trace({});
  EXPECT_EQ(trace({"ngram", "suffix"}), without);
  EXPECT_GT(std::get<2>(without), 50);  // memory was short
  EXPECT_GT(std::ranges::count_if(std::get<0>(without), [](std::int64_t n) { return n > 0; }), 40);
}

// Requests that come, end, are cancelled and fork, with drafts that are mostly wrong, in little memory.
TEST_F(SpeculationTest, NoBlockIsEverLost) {
  EngineConfig config = with({"ngram", "suffix"});
  const KvGroup group = kv_groups(model_->config(), config.kv).front();
  config.kv_bytes = static_cast<std::uint64_t>(24 * make_layout(group, 16).block_bytes());
  Engine engine(*backend_, *model_, config);
  std::vector<RequestId> ids;
  std::int64_t ends = 0;
  const OnUpdate count = [&ends](const Update& update) { ends += update.finish != FinishReason::kNone; };
  for (std::uint64_t step = 0; step < 400; ++step) {
    const std::uint64_t dice = mix(7, step, 3) % 12;
    if (dice < 3) {
      Request asked = request(copying(step % 5), 10 + static_cast<std::int64_t>(step % 50), 0.6F);
      asked.sampling.seed = step;
      ids.push_back(engine.submit(asked, count));
    }
    if (dice == 3 && !ids.empty()) engine.cancel(ids[mix(step, 1, 1) % ids.size()]);
    if (dice == 4 && !ids.empty() && engine.num_running() > 0) {
      RequestId running = 0;
      engine.scheduler().each([&](const Sequence& one) {
        if (one.lease.valid() && one.finish == FinishReason::kNone) running = one.id;
      });
      if (running != 0) ids.push_back(engine.fork(running, step, count));
    }
    engine.step();
    ASSERT_EQ(engine.cache().problem(), std::nullopt) << step;
  }
  engine.run();
  EXPECT_EQ(ends, std::ssize(ids));
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
  EXPECT_GT(engine.speculator().counts().drafters[0].accepted, 0);
}

// --- the distribution

// Verification itself, a million tokens of it: rows whose logits are known, with a draft that is right now and then.
// What comes of them is distributed as the logits say; the rule that takes every draft for right is caught.
class DistributionTest : public ::testing::Test {
 protected:
  static constexpr int kVocab = 8;
  static constexpr std::array<float, kVocab> kLogits{1.2F, 0.3F, -0.5F, 2.0F, 0.0F, -1.5F, 0.9F, -0.2F};
  static constexpr std::int64_t kDraws = 1000000;
  static constexpr double kLimit = 29.9;  // one in 10,000 with seven degrees of freedom

  static double chi_square(const std::array<std::int64_t, kVocab>& counts) {
    double sum = 0;
    for (const float logit : kLogits) sum += std::exp(static_cast<double>(logit));
    const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
    double out = 0;
    for (size_t t = 0; t < kVocab; ++t) {
      const double expected = all * std::exp(static_cast<double>(kLogits[t])) / sum;
      const double off = static_cast<double>(counts[t]) - expected;
      out += off * off / expected;
    }
    return out;
  }
};

TEST_F(DistributionTest, VerifiedTokensAreDrawnAsTheModelSays) {
  Scheduler scheduler{SchedulerConfig{}};
  EngineListeners listeners;
  MaskQueue masks(scheduler);
  TokenAcceptor acceptor(listeners, masks);
  Request request;
  request.prompt = {1};
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.max_tokens = 2 * kDraws;
  Sequence sequence(1, request, {});
  std::array<std::int64_t, kVocab> counts{};
  std::array<std::int64_t, kVocab> behind_a_right_one{};
  std::array<std::int64_t, kVocab> broken{};
  std::int64_t verified = 0;
  std::vector<float> logits;
  constexpr std::array<std::int32_t, 2> kChain{-1, 0};
  for (std::int64_t i = 0; std::ssize(sequence.tokens) < kDraws; ++i) {
    logits.clear();
    for (int row = 0; row < 3; ++row) logits.insert(logits.end(), kLogits.begin(), kLogits.end());
    const std::array<TokenId, 2> draft{static_cast<TokenId>(mix(3, static_cast<std::uint64_t>(i), 9) % 4),
                                       static_cast<TokenId>(mix(4, static_cast<std::uint64_t>(i), 9) % kVocab)};
    const StepOutput output = acceptor.accept(
        {.sequence = &sequence, .rows = 3, .draft = {draft, kChain}, .logits = logits, .logit_rows = 3});
    verified += output.verified();
    for (const TokenId token : output.tokens) ++counts[static_cast<size_t>(token)];
    if (output.tokens.size() > 1) ++behind_a_right_one[static_cast<size_t>(output.tokens[1])];
    ++broken[static_cast<size_t>(draft[0])];
    ++broken[static_cast<size_t>(output.tokens.back())];
  }
  EXPECT_GT(verified, kDraws / 10);
  EXPECT_LT(chi_square(counts), kLimit);
  EXPECT_LT(chi_square(behind_a_right_one), kLimit);
  EXPECT_GT(chi_square(broken), 100 * kLimit);
}

}  // namespace
}  // namespace kvasir::testing
