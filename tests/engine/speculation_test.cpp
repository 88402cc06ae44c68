// Drafters that look texts up, or are models, and that no answer, hit or tenant notices them.
#include <gtest/gtest.h>

#include <numeric>

#include "backend/make_backend.h"
#include "base/error.h"
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

}  // namespace
}  // namespace kvasir::testing
