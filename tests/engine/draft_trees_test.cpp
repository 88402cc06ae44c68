// Drafts that branch: which path is accepted, where its rows lie then, and who branches.
#include <gtest/gtest.h>

#include <numeric>

#include "backend/make_backend.h"
#include "engine/draft/acceptance.h"
#include "engine/draft/draft_plan.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "engine/known_tree.h"
#include "engine/sampling_backend.h"
#include "model/random_model.h"
#include "support/draft_pair.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

using Verify = SpeculationConfig::Verify;

// 1 and behind it 2 and 3; beside 1 stands 4, and behind that 5.
Draft small_tree() {
  Draft out;
  out.add(1, 0.9F);
  out.add(2, 0.8F);
  out.add_behind(0, 3, 0.2F);
  out.add_behind(-1, 4, 0.4F);
  out.add(5, 0.7F);
  return out;
}

TEST(DraftTest, KnowsItsPaths) {
  Draft draft = small_tree();
  EXPECT_TRUE(draft.view().branches());
  EXPECT_EQ(draft.view().chain_length(), 2U);
  EXPECT_EQ(draft.view().find(-1, 4), 3);
  EXPECT_EQ(draft.view().find(0, 3), 2);
  EXPECT_EQ(draft.view().find(-1, 3), -1);
  EXPECT_EQ(draft.view().depth(2), 1);
  EXPECT_EQ(draft.view().depth(3), 0);
  EXPECT_FALSE(draft.stands_beside(1));
  EXPECT_TRUE(draft.stands_beside(2));
  EXPECT_TRUE(draft.stands_beside(3));
  EXPECT_FALSE(draft.stands_beside(4));
  draft.follow(4);
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{5}));
  EXPECT_EQ(draft.parents, (std::vector<std::int32_t>{-1}));
  draft = small_tree();
  draft.follow(1);
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{2, 3}));
  EXPECT_EQ(draft.parents, (std::vector<std::int32_t>{-1, -1}));
  draft.follow(7);
  EXPECT_TRUE(draft.empty());
  draft = small_tree();
  draft.keep_if([](std::int32_t token) { return token != 0; });  // and nothing of what stood behind it
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{4, 5}));
  EXPECT_EQ(draft.parents, (std::vector<std::int32_t>{-1, 0}));
  EXPECT_EQ(draft.confidence, (std::vector<float>{0.4F, 0.7F}));
}

TEST(DraftTest, WhatStandsBesideIsLearnedByItself) {
  Acceptance acceptance;
  const double first = acceptance.of(0.5F);
  for (int i = 0; i < 60; ++i) acceptance.learn(0.5F, true, Acceptance::Place::kBeside);
  EXPECT_EQ(acceptance.of(0.5F), first);
  EXPECT_GT(acceptance.of(0.5F, Acceptance::Place::kBeside), 0.9);
  std::vector<double> reaches;
  acceptance.reaches(small_tree(), reaches);
  ASSERT_EQ(reaches.size(), 5U);
  EXPECT_DOUBLE_EQ(reaches[1], reaches[0] * acceptance.of(0.8F));
  EXPECT_DOUBLE_EQ(reaches[2], reaches[0] * acceptance.of(0.2F, Acceptance::Place::kBeside));
  EXPECT_DOUBLE_EQ(reaches[4], reaches[3] * acceptance.of(0.7F));
}

// A branch is a row like any other: it is verified where it pays, with all that stands before it.
TEST(DraftTest, ThePlanTakesBranchesThatPay) {
  Acceptance acceptance;
  for (int i = 0; i < 60; ++i) acceptance.learn(0.4F, true, Acceptance::Place::kBeside);
  const Draft tree = small_tree();
  const std::vector<DraftOffer> offers{{&tree, &acceptance}};
  const auto taken = [&](double row) {
    PassCosts costs;
    for (int rows = 1; rows <= 40; ++rows) costs.measure(rows, 1e-3 + row * rows);
    DraftPlan plan;
    return plan.choose(offers, {1, 1, 64}, costs).tokens[0];
  };
  EXPECT_EQ(taken(1e-9), 0b11111U);
  EXPECT_EQ(taken(1), 0U);
  const std::uint64_t some = taken(4e-4);
  EXPECT_NE(some & 0b01000U, 0U);  // the branch, which was always right …
  EXPECT_EQ(some & 0b00100U, 0U);  // … and not what hardly ever is
  EXPECT_TRUE((some & 0b10000U) == 0 || (some & 0b01000U) != 0);
}

// --- engines

class DraftTreesTest : public ::testing::Test {
 protected:
  static constexpr std::array<const char*, 5> kPolicies{"f16", "int4", "k=int8, v=bf16", "f16, window=40, sinks=4",
                                                        "f32"};
  static Request request(std::int64_t answer, float temperature, std::uint64_t seed = 9) {
    Request out;
    for (TokenId i = 0; i < 21; ++i) out.prompt.push_back(i * 7 % 90 + 1);
    out.max_tokens = answer;
    out.sampling.temperature = temperature;
    out.sampling.seed = seed;
    return out;
  }
  static EngineConfig branching(const char* policy = "f16", int branches = 3) {
    EngineConfig config;
    config.kv = parse_kv_policy(policy, "test");
    config.speculation.branches = branches;
    return config;
  }
  static Heard answer(Engine& engine, const Request& asked) {
    Heard heard;
    engine.submit(asked, into(heard));
    while (!engine.idle()) {
      engine.step();
      EXPECT_EQ(engine.cache().problem(), std::nullopt);
    }
    EXPECT_EQ(engine.cache().pool(0).held(), 0);
    return heard;
  }
  // What every published block of the text holds.
  static std::vector<std::vector<std::byte>> bytes_of(Engine& engine, std::span<const TokenId> text) {
    std::vector<std::vector<std::byte>> out;
    const KvCache& cache = engine.cache();
    const std::vector<Key256> keys = cache.block_keys(text, {});
    for (std::size_t group = 0; group < cache.groups(); ++group) {
      for (BlockId block = 0; block < cache.pool(group).id_limit(); ++block) {
        if (cache.pool(group).state(block) == BlockPool::State::kAbsent) continue;
        const BlockInfo info = cache.info(group, block);
        if (!info.published || std::ranges::find(keys, info.key) == keys.end()) continue;
        const auto place = group * keys.size() + static_cast<std::size_t>(info.block_index);
        if (out.size() <= place) out.resize(place + 1);
        out[place].resize(static_cast<std::size_t>(engine.storage().block_bytes(group)));
        engine.storage().read_block(group, block, out[place]);
      }
    }
    return out;
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 1, "auto"});
  std::unique_ptr<Model> model_ = load_golden("gqa", *backend_, 64);
};

// What stands in the cache afterwards is, byte for byte, what plain decoding wrote.
TEST_F(DraftTreesTest, TheCacheHoldsTheBytesOfPlainDecoding) {
  for (const char* policy : kPolicies) {
    for (const float temperature : {0.0F, 1.0F}) {
      Engine plain(*backend_, *model_, branching(policy));
      const Heard expected = answer(plain, request(100, temperature));
      KnownTree drafter(6);
      drafter.know(request(100, temperature).prompt, expected.tokens);
      Engine engine(*backend_, *model_, branching(policy));
      engine.use_drafter(&drafter);
      const Heard heard = answer(engine, request(100, temperature));
      EXPECT_EQ(heard.tokens, expected.tokens) << policy;
      const DraftRecord& drafts = heard.record.drafts.at(0);
      EXPECT_GT(drafts.branch_proposed, 30) << policy;
      EXPECT_GT(drafts.branch_accepted, 20) << policy;
      EXPECT_GT(drafts.accepted, 70) << policy;
      std::vector<TokenId> text = request(1, 0).prompt;
      text.insert(text.end(), heard.tokens.begin(), heard.tokens.end());
      const auto bytes = bytes_of(engine, text);
      EXPECT_EQ(bytes, bytes_of(plain, text)) << policy;
      EXPECT_GE(bytes.size(), 3U) << policy;
      EXPECT_EQ(engine.cache().stats().published_blocks, plain.cache().stats().published_blocks) << policy;
    }
  }
}

// Each step takes the longest path that is right: a token more than the tree is deep.
TEST_F(DraftTreesTest, TheLongestRightPathIsAccepted) {
  Engine plain(*backend_, *model_, {});
  const Heard expected = answer(plain, request(43, 0.8F));
  KnownTree drafter(6);
  drafter.know(request(43, 0.8F).prompt, expected.tokens);
  for (const bool samples : {false, true}) {
    std::unique_ptr<Backend> backend = make_backend({"cpu", 1, "auto"});
    if (samples) backend = std::make_unique<SamplingBackend>(std::move(backend));
    const auto model = load_golden("gqa", *backend, 64);
    Engine engine(*backend, *model, branching());
    engine.use_drafter(&drafter);
    const Heard heard = answer(engine, request(43, 0.8F));
    EXPECT_EQ(heard.tokens, expected.tokens);
    EXPECT_LE(heard.record.steps, 1 + 8);  // the room of the last tokens cuts branches off
  }
}

// Whoever may not branch gets the main chain of what is said, and no more.
TEST_F(DraftTreesTest, WhoMayNotBranchGetsAChain) {
  Engine plain(*backend_, *model_, {});
  const Heard expected = answer(plain, request(60, 0.8F));
  KnownTree drafter(6);
  drafter.know(request(60, 0.8F).prompt, expected.tokens);
  for (const int branches : {1, 4}) {
    Engine engine(*backend_, *model_, branching("f16", branches));
    engine.use_drafter(&drafter);
    Request asked = request(60, 0.8F);
    asked.speculative.branches = 5 - branches;  // one of the two says 1
    const Heard heard = answer(engine, asked);
    EXPECT_EQ(heard.tokens, expected.tokens);
    EXPECT_EQ(heard.record.drafts.at(0).branch_proposed, 0);
    EXPECT_GT(heard.record.drafts.at(0).accepted, 10);
  }
}

// A state has seen its rows in one order.
TEST_F(DraftTreesTest, RecurrentModelsGetChains) {
  ModelSpec spec = load_config(golden_dir("qwen3_next"));
  spec.vocab = 101;
  const auto hybrid = make_random_model(spec, *backend_, {64, {}}, 1);
  Engine plain(*backend_, *hybrid, {});
  const Heard expected = answer(plain, request(40, 0));
  KnownTree drafter(6);
  drafter.know(request(40, 0).prompt, expected.tokens);
  Engine engine(*backend_, *hybrid, branching());
  engine.use_drafter(&drafter);
  const Heard heard = answer(engine, request(40, 0));
  EXPECT_EQ(heard.tokens, expected.tokens);
  EXPECT_GT(heard.record.drafts.at(0).proposed, 0);
  EXPECT_EQ(heard.record.drafts.at(0).branch_proposed, 0);
}

// What a form forbids is left out of every path, and what may come stays.
TEST_F(DraftTreesTest, AFormPrunesBranches) {
  class Even : public TokenConstraint {
   public:
    void mask(std::span<float> logits) override {
      for (std::size_t i = 1; i < logits.size(); i += 2) logits[i] = -1e30F;
    }
    void accept(TokenId token) override {
      if (token % 2 != 0) fail_input("odd", "form");
    }
    bool ended() const override { return false; }
    std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<Even>(); }
  };
  Request asked = request(50, 0.8F);
  asked.constraint = std::make_shared<Even>();
  Engine plain(*backend_, *model_, {});
  const Heard expected = answer(plain, asked);
  KnownTree drafter(6);  // every wrong token of it is odd
  drafter.know(asked.prompt, expected.tokens);
  Engine engine(*backend_, *model_, branching());
  engine.use_drafter(&drafter);
  const Heard heard = answer(engine, asked);
  EXPECT_EQ(heard.tokens, expected.tokens);
  EXPECT_EQ(heard.record.drafts.at(0).proposed, heard.record.drafts.at(0).accepted);
  EXPECT_EQ(heard.record.drafts.at(0).branch_proposed, 0);
}

// A draft model and a head say what else they might have guessed: sampled, and the noise of the place decides.
TEST_F(DraftTreesTest, ModelsAndHeadsBranch) {
  for (const auto kind : {DraftHeadSpec::Kind::kNextN, DraftHeadSpec::Kind::kEagle3}) {
    DraftPair pair(kind);
    std::int64_t on_branches = 0;
    std::int64_t chain_accepted = 0;
    std::int64_t tree_accepted = 0;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const Request asked = pair_request(pair_text(24, seed), 60, seed % 2 == 0 ? 0.0F : 0.9F, seed);
      Engine plain = pair.plain();
      const Heard expected = answer(plain, asked);
      for (const int branches : {1, 3}) {
        EngineConfig config = pair.config();
        config.speculation.branches = branches;
        Engine engine = pair.engine(config);
        const Heard heard = answer(engine, asked);
        EXPECT_EQ(heard.tokens, expected.tokens);
        const DraftRecord& drafts = heard.record.drafts.at(0);
        on_branches += drafts.branch_accepted;
        (branches == 1 ? chain_accepted : tree_accepted) += drafts.accepted;
        Request next = asked;  // what was moved together is read
        next.prompt.insert(next.prompt.end(), heard.tokens.begin(), heard.tokens.end());
        Engine cold = pair.plain();
        EXPECT_EQ(answer(engine, next).tokens, answer(cold, next).tokens);
      }
    }
    EXPECT_GT(on_branches, 10);
    EXPECT_GT(tree_accepted, chain_accepted);
  }
}

// Requests that come, end, are cancelled and fork, while drafts branch, in little memory.
TEST_F(DraftTreesTest, NoBlockIsEverLost) {
  EngineConfig config = branching();
  config.speculation.drafters = {"ngram", "suffix"};
  config.speculation.verify = Verify::kAll;
  const KvGroup group = kv_groups(model_->config(), config.kv).front();
  config.kv_bytes = static_cast<std::uint64_t>(24 * make_layout(group, 16).block_bytes());
  Engine engine(*backend_, *model_, config);
  std::vector<RequestId> ids;
  std::int64_t ends = 0;
  std::int64_t branched = 0;
  const OnUpdate count = [&](const Update& update) {
    ends += update.finish != FinishReason::kNone;
    if (update.finish == FinishReason::kNone) return;
    for (const DraftRecord& one : update.record->drafts) branched += one.branch_proposed;
  };
  for (std::uint64_t step = 0; step < 400; ++step) {
    const std::uint64_t dice = mix(8, step, 3) % 12;
    if (dice < 3) {
      Request asked = request(10 + static_cast<std::int64_t>(step % 50), 0.6F, step);
      for (std::size_t i = 0; i < asked.prompt.size(); ++i)
        asked.prompt[i] = static_cast<TokenId>(mix(step % 4, i, 0) % 3);
      ids.push_back(engine.submit(asked, count));
    }
    if (dice == 3 && !ids.empty()) engine.cancel(ids[mix(step, 1, 1) % ids.size()]);
    engine.step();
    ASSERT_EQ(engine.cache().problem(), std::nullopt) << step;
  }
  engine.run();
  EXPECT_EQ(ends, std::ssize(ids));
  EXPECT_EQ(engine.cache().pool(0).held(), 0);
  EXPECT_GT(branched, 20);
}

}  // namespace
}  // namespace kvasir::testing
