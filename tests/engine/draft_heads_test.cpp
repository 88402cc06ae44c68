// Draft heads in an engine: a target of which every token nearly says what follows, and heads that know that too, so
// that much of what they guess is right and some of it wrong.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>

#include "backend/make_backend.h"
#include "base/error.h"
#include "engine/draft/drafters.h"
#include "engine/draft/guess_sampler.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "support/draft_pair.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

using Kind = DraftHeadSpec::Kind;
using Verify = SpeculationConfig::Verify;

Heard answer(Engine& engine, const Request& asked) {
  Heard heard;
  engine.submit(asked, into(heard));
  while (!engine.idle()) {
    engine.step();
    EXPECT_EQ(engine.cache().problem(), std::nullopt);
  }
  return heard;
}

std::pair<std::int64_t, std::int64_t> counts_of(const Heard& heard) {
  std::pair<std::int64_t, std::int64_t> out;
  for (const DraftRecord& one : heard.record.drafts) {
    out.first += one.proposed;
    out.second += one.accepted;
  }
  return out;
}

std::int64_t held(Engine& engine) {
  std::int64_t out = 0;
  for (size_t group = 0; group < engine.cache().groups(); ++group) out += engine.cache().pool(group).held();
  return out;
}

class DraftHeadsTest : public ::testing::TestWithParam<Kind> {
 protected:
  DraftPair pair_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Kinds, DraftHeadsTest, ::testing::Values(Kind::kNextN, Kind::kEagle3),
                         [](const auto& cell) { return cell.param == Kind::kNextN ? "mtp" : "eagle3"; });

// Sampled and greedy: the very tokens, in fewer steps, with guesses that are right far more often than by chance.
TEST_P(DraftHeadsTest, AnswersAreTheSameInFewerSteps) {
  for (const float temperature : {0.0F, 0.7F}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Request asked =
          pair_request(pair_text(9 + 20 * static_cast<std::int64_t>(seed), seed), 60, temperature, seed);
      Engine without = pair_.plain();
      Engine engine = pair_.engine(pair_.config());
      const Heard expected = answer(without, asked);
      const Heard heard = answer(engine, asked);
      EXPECT_EQ(heard.tokens, expected.tokens);
      const auto [proposed, accepted] = counts_of(heard);
      EXPECT_GT(accepted, proposed / 20) << seed;  // by chance it is one of a hundred
      EXPECT_GT(accepted, 15);
      EXPECT_LT(heard.record.steps, expected.record.steps);
      EXPECT_EQ(held(engine), 0);
    }
  }
}

// The head's rows are the same wherever a sequence began: what it lacks behind a hit is computed again, so that it
// guesses what it would have guessed cold, token by token.
TEST_P(DraftHeadsTest, GuessesTheSameBehindAHit) {
  for (const std::int64_t length : {33, 40, 47, 48, 49, 64, 65}) {
    const std::vector<TokenId> text = pair_text(length, 4);
    Engine engine = pair_.engine(pair_.config());
    answer(engine, pair_request(text, 10));
    std::vector<TokenId> longer = text;
    const std::vector<TokenId> more = pair_text(13, 9);
    longer.insert(longer.end(), more.begin(), more.end());
    const Heard warm = answer(engine, pair_request(longer, 40));
    EXPECT_GE(warm.record.reuse.reused_tokens, length - 1) << length;
    Engine fresh = pair_.engine(pair_.config());
    const Heard cold = answer(fresh, pair_request(longer, 40));
    EXPECT_EQ(cold.record.reuse.reused_tokens, 0);
    EXPECT_EQ(warm.tokens, cold.tokens);
    EXPECT_EQ(counts_of(warm), counts_of(cold)) << length;
    // Once more: all of the prompt is there now, and the answer as well.
    longer.insert(longer.end(), cold.tokens.begin(), cold.tokens.end());
    const Heard again = answer(engine, pair_request(longer, 30));
    EXPECT_GT(again.record.reuse.reused_tokens, std::ssize(longer) - 17);
    Engine other = pair_.engine(pair_.config());
    EXPECT_EQ(counts_of(again), counts_of(answer(other, pair_request(longer, 30))));
  }
}

// Where a request that was not followed left its text, the head lacks rows. It guesses what it can, and what it
// writes meanwhile is found by nobody.
TEST_P(DraftHeadsTest, WhatIsMissingIsNotPublished) {
  const std::vector<TokenId> text = pair_text(90, 4);
  Engine engine = pair_.engine(pair_.config());
  Request off = pair_request(text, 20);
  off.speculative.most = 0;
  EXPECT_TRUE(answer(engine, off).record.drafts.empty());
  const Heard heard = answer(engine, pair_request(text, 40));
  EXPECT_GE(heard.record.reuse.reused_tokens, 88);
  EXPECT_GT(counts_of(heard).second, 5);
  Engine without = pair_.plain();
  EXPECT_EQ(heard.tokens, answer(without, pair_request(text, 40)).tokens);
  const PolicyId policy = engine.policies().all().front()->model == 1 ? engine.policies().all().front()->id
                                                                      : engine.policies().all().back()->id;
  EXPECT_EQ(engine.cache().policy_stats(policy).blocks, 0);
  EXPECT_EQ(held(engine), 0);
}

// Several at once, in little memory, on backends that sample and that do not; by what pays as well.
TEST_P(DraftHeadsTest, NobodyNoticesInLittleMemory) {
  std::vector<Request> asked;
  std::vector<Heard> expected;
  for (std::uint64_t i = 0; i < 6; ++i) {
    asked.push_back(
        pair_request(pair_text(20 + 13 * static_cast<std::int64_t>(i % 4), i % 3), 50, i % 2 == 0 ? 0.0F : 0.8F, i));
    Engine without = pair_.plain();
    expected.push_back(answer(without, asked.back()));
  }
  for (const bool samples : {false, true}) {
    for (const Verify verify : {Verify::kAll, Verify::kWhatPays}) {
      DraftPair pair(GetParam(), samples);
      EngineConfig config = pair.config(verify);
      const auto bytes = block_bytes_of(kv_groups(pair.target(), config.kv).front(), 16);
      config.kv_bytes = static_cast<std::uint64_t>(16 * bytes);
      Engine engine = pair.engine(config);
      for (int turn = 0; turn < 2; ++turn) {
        std::vector<Heard> heard(asked.size());
        for (size_t i = 0; i < asked.size(); ++i) engine.submit(asked[i], into(heard[i]));
        while (!engine.idle()) {
          engine.step();
          ASSERT_EQ(engine.cache().problem(), std::nullopt);
        }
        for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(heard[i].tokens, expected[i].tokens) << i;
      }
      EXPECT_EQ(held(engine), 0);
    }
  }
}

// Requests that come, end, are cancelled and fork, at random.
TEST_P(DraftHeadsTest, NoBlockIsEverLost) {
  EngineConfig config = pair_.config();
  const auto bytes = block_bytes_of(kv_groups(pair_.target(), config.kv).front(), 16);
  config.kv_bytes = static_cast<std::uint64_t>(30 * bytes);
  Engine engine = pair_.engine(config);
  std::vector<RequestId> ids;
  std::int64_t ends = 0;
  const OnUpdate count = [&ends](const Update& update) { ends += update.finish != FinishReason::kNone; };
  for (std::uint64_t step = 0; step < 400; ++step) {
    const std::uint64_t dice = mix(7, step, 3) % 12;
    if (dice < 3) {
      Request asked = pair_request(pair_text(static_cast<std::int64_t>(5 + step % 60), step % 5),
                                   10 + static_cast<std::int64_t>(step % 50), 0.6F, step);
      if (step % 7 == 0) asked.speculative.most = 0;
      ids.push_back(engine.submit(asked, count));
    }
    if (dice == 3 && !ids.empty()) engine.cancel(ids[mix(step, 1, 1) % ids.size()]);
    if (dice == 4 && engine.num_running() > 0) {
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
  EXPECT_EQ(held(engine), 0);
  EXPECT_GT(engine.speculator().counts().drafters[0].accepted, 100);
}

TEST(DraftChoiceTest, NamesOneThatRunsPasses) {
  using enum DraftChoice::OwnHead;
  EXPECT_EQ(parse_draft_choice("off", "").own_head, kNo);
  EXPECT_EQ(parse_draft_choice("auto", "").own_head, kIfThere);
  EXPECT_EQ(parse_draft_choice("ngram", "").own_head, kNo);
  const DraftChoice both = parse_draft_choice("ngram,mtp", "");
  EXPECT_EQ(both.own_head, kYes);
  EXPECT_EQ(both.drafters, (std::vector<std::string>{"prediction", "ngram"}));
  EXPECT_EQ(parse_draft_choice("auto,some/folder", "").model, "some/folder");
  EXPECT_THROW(parse_draft_choice("mtp,some/folder", "--draft"), Error);
  EXPECT_THROW(parse_draft_choice("a,b", "--draft"), Error);
}

// A head's vocabulary may be a part of its target's: its tokens are the target's, and so is the noise they are drawn
// with.
TEST(GuessSamplerTest, TokensAreTheTargets) {
  const auto backend = make_backend({"cpu", 1, "auto"});
  std::vector<float> few{0.5F, 2.0F, 1.9F, -1.0F};
  const std::vector<TokenId> tokens{3, 8, 9, 20};
  std::vector<float> all(30, -1e30F);
  for (size_t i = 0; i < few.size(); ++i) all[static_cast<size_t>(tokens[i])] = few[i];
  SamplingParams params;
  params.temperature = 1;
  GuessSampler own(*backend, tokens);
  GuessSampler plain(*backend);
  std::set<TokenId> seen;
  for (params.seed = 0; params.seed < 400; ++params.seed) {
    Sampler sampler(params, {});
    const std::array<GuessSampler::Row, 1> rows{{{&sampler, 7}}};
    std::vector<float> copy = few;
    const TokenId guess = own.sample({copy.data(), 1, 4, 4}, rows).front().front().token;
    EXPECT_EQ(guess, plain.sample({all.data(), 1, 30, 30}, rows).front().front().token);
    seen.insert(guess);
  }
  EXPECT_EQ(seen, (std::set<TokenId>{3, 8, 9, 20}));
}

// What stands beside a guess is what would have been sampled without it: the same that more noise would bring.
TEST(GuessSamplerTest, SaysWhatElseItMightHaveSaid) {
  const auto backend = make_backend({"cpu", 1, "auto"});
  std::vector<float> logits{0.5F, 2.0F, 1.9F, -9.0F};
  SamplingParams params;
  params.temperature = 0;
  Sampler greedy(params, {});
  GuessSampler sampler(*backend);
  const std::array<GuessSampler::Row, 1> rows{{{&greedy, 7, 4}}};
  const std::vector<Guess> guesses = sampler.sample({logits.data(), 1, 4, 4}, rows).front();
  ASSERT_EQ(guesses.size(), 3U);  // the last one is too unlikely to be a guess
  EXPECT_EQ(guesses[0].token, 1);
  EXPECT_EQ(guesses[1].token, 2);
  EXPECT_EQ(guesses[2].token, 0);
  EXPECT_GT(guesses[1].sure, guesses[2].sure);
  Draft draft;
  sampler.add(guesses, draft);
  sampler.add(guesses, draft);
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{1, 1}));
  sampler.add_branches();
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{1, 1, 2, 0, 2, 0}));
  EXPECT_EQ(draft.parents, (std::vector<std::int32_t>{-1, 0, -1, -1, 0, 0}));
}

// The target's hits are as many, to the token.
TEST_P(DraftHeadsTest, HitsAreAsManyAsWithout) {
  const auto trace = [this](bool drafts) {
    EngineConfig config = pair_.config();
    if (!drafts) config.speculation = {};
    Engine engine = drafts ? pair_.engine(config) : pair_.plain();
    std::vector<std::vector<TokenId>> chats(8);
    std::vector<std::int64_t> hits;
    for (std::uint64_t turn = 0; turn < 100; ++turn) {
      std::vector<TokenId>& chat = chats[mix(turn, 1, 2) % chats.size()];
      if (chat.size() > 250) chat.clear();
      const std::vector<TokenId> next = pair_text(9, turn % 6);
      chat.insert(chat.end(), next.begin(), next.end());
      const Heard heard = answer(engine, pair_request(chat, 12 + static_cast<std::int64_t>(turn % 9)));
      hits.push_back(heard.record.reuse.reused_tokens);
      chat.insert(chat.end(), heard.tokens.begin(), heard.tokens.end());
    }
    return hits;
  };
  const auto without = trace(false);
  EXPECT_EQ(trace(true), without);
  EXPECT_GT(std::reduce(without.begin(), without.end()), 2000);
}

}  // namespace
}  // namespace kvasir::testing
