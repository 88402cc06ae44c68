// Drafters over many prompts: greedy answers, and the cache's hits, as without them.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/heard.h"
#include "model/random_model.h"
#include "support/draft_pair.h"

namespace kvasir::testing {
namespace {

using Kind = DraftHeadSpec::Kind;

constexpr std::array<const char*, 5> kPolicies{"f16", "int4", "k=int8, v=bf16", "f16, window=40, sinks=4",
                                               "f16, evict=tova:64"};

// Texts that begin alike, copy themselves and are of every length; policies in turn.
Request prompt_of(std::uint64_t i) {
  std::vector<TokenId> text = pair_text(static_cast<std::int64_t>(4 + i % 37), i % 50);
  if (i % 3 == 0) text.insert(text.end(), text.begin(), text.end());
  const std::vector<TokenId> own = pair_text(static_cast<std::int64_t>(i % 11), 1000 + i);
  text.insert(text.end(), own.begin(), own.end());
  Request out = pair_request(std::move(text), static_cast<std::int64_t>(16 + i % 17));
  out.kv = parse_kv_policy(kPolicies[i % kPolicies.size()], "test");
  return out;
}

// What the drafters of a configuration are, and with what the engine is made.
struct Drafting {
  std::string name;
  SpeculationConfig config;
  std::vector<EngineModel> more;
};

// In memory that is too little for all that run at once: some are paused.
std::vector<std::vector<TokenId>> answers_of(DraftPair& pair, const Drafting& drafting, std::uint64_t prompts) {
  EngineConfig config;
  config.speculation = drafting.config;
  for (const char* policy : kPolicies) config.kv_also.push_back(parse_kv_policy(policy, "test"));
  config.kv_bytes = static_cast<std::uint64_t>(14 * block_bytes_of(kv_groups(pair.target(), {}).front(), 16));
  Engine engine(pair.backend(), pair.model(), config, drafting.more);
  std::vector<Heard> heard(prompts);
  for (std::uint64_t i = 0; i < prompts; ++i) {
    engine.submit(prompt_of(i), into(heard[i]));
    while (engine.num_running() + engine.num_waiting() > 12) {
      engine.step();
      EXPECT_EQ(engine.cache().problem(), std::nullopt);
    }
  }
  engine.run();
  if (!drafting.config.drafters.empty()) {
    std::int64_t accepted = 0;
    for (const DrafterCounts& one : engine.speculator().counts().drafters) accepted += one.accepted;
    EXPECT_GT(accepted, 300) << drafting.name;
  }
  EXPECT_GT(engine.scheduler().preemptions(), 0) << drafting.name;
  std::vector<std::vector<TokenId>> out;
  for (Heard& one : heard) out.push_back(std::move(one.tokens));
  return out;
}

TEST(LongDrafts, AThousandGreedyAnswersAreTheSame) {
  constexpr std::uint64_t kPrompts = 1000;
  DraftPair pair(Kind::kNextN);
  DraftPair eagle(Kind::kEagle3);
  std::vector<std::vector<TokenId>> alone;
  for (std::uint64_t i = 0; i < kPrompts; ++i) {
    EngineConfig config;
    for (const char* policy : kPolicies) config.kv_also.push_back(parse_kv_policy(policy, "test"));
    Engine engine(pair.backend(), pair.model(), config);
    Heard heard;
    engine.submit(prompt_of(i), into(heard));
    engine.run();
    alone.push_back(std::move(heard.tokens));
  }
  const auto all = SpeculationConfig::Verify::kAll;
  EngineConfig tree = pair.config();
  tree.speculation.branches = 3;
  const std::vector<EngineModel> twin{{&pair.model(), KvPolicy{}}};
  const std::vector<Drafting> draftings{
      {"off", {}, {}},
      {"ngram", {.drafters = {"ngram"}, .verify = all}, {}},
      {"suffix", {.drafters = {"suffix"}, .verify = all}, {}},
      {"model", {.drafters = {"model"}, .model = 1, .most = 4, .verify = all}, twin},
      {"mtp", pair.config().speculation, {{&pair.head(), KvPolicy{}}}},
      {"tree of texts", {.drafters = {"ngram", "suffix"}, .branches = 3, .verify = all}, {}},
      {"tree of a model", {.drafters = {"model"}, .model = 1, .most = 4, .branches = 2, .verify = all}, twin},
      {"tree of mtp", tree.speculation, {{&pair.head(), KvPolicy{}}}},
      {"mtp and texts, as they pay",
       {.drafters = {"ngram", "suffix", "mtp"}, .model = 1},
       {{&pair.head(), KvPolicy{}}}},
  };
  for (const Drafting& drafting : draftings) {
    const auto answers = answers_of(pair, drafting, kPrompts);
    for (std::uint64_t i = 0; i < kPrompts; ++i) ASSERT_EQ(answers[i], alone[i]) << drafting.name << " " << i;
  }
  // The same target, of the same weights.
  const auto answers =
      answers_of(eagle, {"eagle3", eagle.config().speculation, {{&eagle.head(), KvPolicy{}}}}, kPrompts);
  for (std::uint64_t i = 0; i < kPrompts; ++i) ASSERT_EQ(answers[i], alone[i]) << "eagle3 " << i;
}

// Hits of 500 chats that come back turn after turn: to the token those of an engine that guesses nothing, in memory
// that has room for all and, of drafters that hold none of it, in memory that has not.
TEST(LongDrafts, ChatsFindWhatTheyFoundWithoutDrafts) {
  DraftPair pair(Kind::kNextN);
  const auto trace = [&](const SpeculationConfig& speculation, const std::vector<EngineModel>& more, int blocks) {
    EngineConfig config;
    config.speculation = speculation;
    config.kv_bytes = static_cast<std::uint64_t>(blocks * block_bytes_of(kv_groups(pair.target(), {}).front(), 16));
    Engine engine(pair.backend(), pair.model(), config, more);
    std::vector<std::vector<TokenId>> chats(500);
    std::vector<std::int64_t> hits;
    for (std::uint64_t turn = 0; turn < 2000; ++turn) {
      std::vector<TokenId>& chat = chats[mix(turn, 1, 2) % chats.size()];
      if (chat.empty()) chat = pair_text(20, turn % 7);
      const std::vector<TokenId> next = pair_text(9, turn % 60);
      chat.insert(chat.end(), next.begin(), next.end());
      Heard heard;
      engine.submit(pair_request(chat, 8 + static_cast<std::int64_t>(turn % 9)), into(heard));
      engine.run();
      hits.push_back(heard.record.reuse.reused_tokens);
      chat.insert(chat.end(), heard.tokens.begin(), heard.tokens.end());
      EXPECT_EQ(engine.cache().problem(), std::nullopt);
    }
    return std::pair(hits, engine.cache().stats().evicted_blocks > 0);
  };
  constexpr int kRoomForAll = 20000;
  constexpr int kLittle = 400;
  const auto all = SpeculationConfig::Verify::kAll;
  const SpeculationConfig texts{.drafters = {"ngram", "suffix"}, .verify = all};
  const auto [without, never] = trace({}, {}, kRoomForAll);
  EXPECT_FALSE(never);
  EXPECT_EQ(trace(texts, {}, kRoomForAll).first, without);
  EXPECT_EQ(trace(pair.config().speculation, {{&pair.head(), KvPolicy{}}}, kRoomForAll).first, without);
  const auto [little, evicted] = trace({}, {}, kLittle);
  EXPECT_TRUE(evicted);
  EXPECT_EQ(trace(texts, {}, kLittle).first, little);
  EXPECT_GT(std::reduce(little.begin(), little.end()), 20000);
}

}  // namespace
}  // namespace kvasir::testing
