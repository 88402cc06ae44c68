// Turns between tenants, and who pauses when blocks run out.
#include <gtest/gtest.h>

#include <map>

#include "engine/schedule/preemption.h"
#include "engine/schedule/scheduler.h"

namespace kvasir::testing {
namespace {

class FairnessTest : public ::testing::Test {
 protected:
  explicit FairnessTest(std::int64_t blocks = 1000) : cache_(config_of(blocks)) {}

  static CacheConfig config_of(std::int64_t blocks) {
    CacheConfig config;
    config.block_tokens = 4;
    config.policy.groups = {{{}, 64}};
    config.pages = {in_order(blocks), 64};
    return config;
  }

  struct Asked {
    std::uint32_t tenant = 0;
    int prompt = 8;
    int priority = 0;
    std::int64_t max_tokens = 4;
  };
  Sequence* add(const Asked& asked) {
    const RequestId id = ++ids_;
    Request request;
    for (int i = 0; i < asked.prompt; ++i) request.prompt.push_back(static_cast<TokenId>(id) * 1000 + i);
    request.tenant.id = asked.tenant;
    request.tenant.secret.bytes.fill(static_cast<std::uint8_t>(asked.tenant));
    request.priority = asked.priority;
    request.max_tokens = asked.max_tokens;
    auto sequence = std::make_unique<Sequence>(id, std::move(request), OnUpdate{});
    Sequence* out = sequence.get();
    scheduler_.add(std::move(sequence));
    return out;
  }

  // As the engine does. The ids of those that ended, and the tokens computed for each tenant so far.
  std::vector<RequestId> step() {
    for (const ScheduledTokens& one : scheduler_.schedule(cache_)) {
      Sequence& s = *one.sequence;
      const bool caught_up = one.rows == s.num_uncomputed_tokens();
      computed_[s.request.tenant.id] += one.rows;
      order_.push_back(s.id);
      const auto done = static_cast<size_t>(s.lease.length());
      cache_.commit(s.lease, std::span(s.tokens).subspan(done, static_cast<size_t>(one.rows)));
      ++s.record.steps;
      if (caught_up) s.tokens.push_back(7);
      if (s.num_output_tokens() == s.request.max_tokens) s.finish = FinishReason::kLength;
    }
    EXPECT_EQ(cache_.problem(), std::nullopt);
    std::vector<RequestId> ended;
    for (const auto& sequence : scheduler_.take_finished()) ended.push_back(sequence->id);
    return ended;
  }

  KvCache cache_;
  Scheduler scheduler_{{8, 2, 0}};
  RequestId ids_ = 0;
  std::map<std::uint32_t, std::int64_t> computed_;
  std::vector<RequestId> order_;
};

TEST_F(FairnessTest, ATenantWithManyRequestsDoesNotPushBackAnotherWithOne) {
  for (int i = 0; i < 50; ++i) add({.tenant = 1});
  const RequestId late = add({.tenant = 2})->id;
  int steps = 0;
  for (bool ended = false; !ended; ++steps) {
    for (const RequestId id : step()) ended |= id == late;
    ASSERT_LT(steps, 20);  // in the order of arrival it would be after some hundred
  }
}

TEST_F(FairnessTest, TokensAreSharedByWeight) {
  scheduler_.set_weight(2, 3);
  for (int i = 0; i < 400; ++i) add({.tenant = static_cast<std::uint32_t>(1 + i % 2)});
  for (int i = 0; i < 200; ++i) step();
  const double ratio = static_cast<double>(computed_[2]) / static_cast<double>(computed_[1]);
  EXPECT_NEAR(ratio, 3, 0.3);
}

TEST_F(FairnessTest, ThePromptOfTheLeastServedIsReadFirst) {
  scheduler_ = Scheduler({8, 2, 6});
  add({.tenant = 1, .prompt = 24});
  add({.tenant = 2, .prompt = 24});
  step();
  EXPECT_EQ(computed_[1], 6);
  EXPECT_EQ(computed_[2], 2);  // what was left
  step();
  EXPECT_EQ(computed_[1], 8);
  EXPECT_EQ(computed_[2], 8);
}

TEST_F(FairnessTest, ALongPromptLeavesRoomForATenantThatWaits) {
  add({.tenant = 1, .prompt = 400});
  step();
  step();
  EXPECT_EQ(computed_[1], 16);  // nobody waits: it has the whole budget
  add({.tenant = 2});
  step();
  EXPECT_EQ(computed_[1], 20);
  EXPECT_EQ(computed_[2], 4);
  for (int i = 0; i < 6; ++i) step();
  EXPECT_EQ(computed_[2], 8 + 3);  // all of its prompt, and its answer: the long one is still being read
  EXPECT_LT(computed_[1], 400);
}

TEST_F(FairnessTest, AbsenceEarnsNoCredit) {
  for (int i = 0; i < 60; ++i) add({.tenant = 1});
  for (int i = 0; i < 60; ++i) step();
  for (int i = 0; i < 60; ++i) add({.tenant = 2});
  const std::int64_t before = computed_[1];
  for (int i = 0; i < 40; ++i) step();
  EXPECT_NEAR(static_cast<double>(computed_[2]), static_cast<double>(computed_[1] - before), 24);
}

TEST_F(FairnessTest, AbsenceEarnsNoCreditAfterAnEarlierVisitEither) {
  add({.tenant = 2});
  while (!scheduler_.idle()) step();
  for (int i = 0; i < 60; ++i) add({.tenant = 1});
  for (int i = 0; i < 60; ++i) step();
  const std::int64_t earlier = computed_[2];
  for (int i = 0; i < 60; ++i) add({.tenant = 2});
  const std::int64_t before = computed_[1];
  for (int i = 0; i < 40; ++i) step();
  EXPECT_NEAR(static_cast<double>(computed_[2] - earlier), static_cast<double>(computed_[1] - before), 24);
}

// However long the history of one, and whoever was away: an idle moment makes nobody's past count.
TEST_F(FairnessTest, AnIdleMomentEarnsNoCredit) {
  for (int i = 0; i < 60; ++i) add({.tenant = 1});
  while (!scheduler_.idle()) step();
  ASSERT_GT(computed_[1], 500);
  for (int i = 0; i < 60; ++i) add({.tenant = 2});
  const RequestId mine = add({.tenant = 1})->id;
  int steps = 0;
  for (bool ended = false; !ended; ++steps) {
    for (const RequestId id : step()) ended |= id == mine;
    ASSERT_LT(steps, 20);  // it would wait until the other has had as much
  }
}

TEST_F(FairnessTest, WorkBesideTheModelCountsTowardsATurn) {
  scheduler_.set_costs({1e-3, 1e-2, 1});
  add({.tenant = 1});
  add({.tenant = 2});
  step();
  scheduler_.charge(1, 1.0);  // a thousand tokens
  for (int i = 0; i < 60; ++i) add({.tenant = static_cast<std::uint32_t>(1 + i % 2)});
  auto before = computed_;
  for (int i = 0; i < 40; ++i) step();
  EXPECT_GT(computed_[2] - before[2], 4 * (computed_[1] - before[1]));
}

// Waiting for another tenant's prompt would tell that it has the same.
TEST_F(FairnessTest, OnlyAPromptOfOnesOwnIsWaitedFor) {
  scheduler_ = Scheduler({100, 8, 6});
  const auto same = [&](std::uint32_t tenant) {
    Sequence* out = add({.tenant = tenant, .prompt = 24});
    for (size_t i = 0; i < out->tokens.size(); ++i) out->tokens[i] = out->request.prompt[i] = static_cast<TokenId>(i);
    return out;
  };
  same(1);
  const Sequence* theirs = same(2);
  const Sequence* own = same(1);
  step();
  EXPECT_TRUE(theirs->lease.valid());
  EXPECT_FALSE(own->lease.valid());
  EXPECT_EQ(scheduler_.counts().waiting_for_prefix, 1);
}

TEST_F(FairnessTest, WithinATenantPriorityThenArrivalDecides) {
  add({.tenant = 1, .priority = 5});
  add({.tenant = 1, .priority = 0});
  add({.tenant = 1, .priority = -1});
  add({.tenant = 1, .priority = 0});
  std::vector<RequestId> ended;
  while (!scheduler_.idle()) {
    for (const RequestId id : step()) ended.push_back(id);
  }
  EXPECT_EQ(ended, (std::vector<RequestId>{3, 2, 4, 1}));
}

class PressureTest : public FairnessTest {
 protected:
  PressureTest() : FairnessTest(12) { scheduler_ = Scheduler({64, 8, 0}); }

  // Until somebody pauses: who.
  Scheduler::PreemptionEvent first_preemption() {
    for (int i = 0; i < 200; ++i) {
      step();
      const auto pauses = scheduler_.take_preemptions();
      if (!pauses.empty()) return pauses.front();
    }
    return {};
  }
};

TEST_F(PressureTest, TheOldestNeverPausesAndEveryoneEnds) {
  for (int i = 0; i < 9; ++i)
    add({.tenant = static_cast<std::uint32_t>(i % 3), .prompt = 4 + 3 * i, .max_tokens = 14});
  int ended = 0;
  for (int i = 0; i < 2000 && !scheduler_.idle(); ++i) {
    ended += static_cast<int>(step().size());
    for (const auto& news : scheduler_.take_preemptions()) EXPECT_NE(news.id, 1U);
  }
  EXPECT_EQ(ended, 9);
  EXPECT_GT(scheduler_.preemptions(), 0);
}

TEST_F(PressureTest, APauseTellsWhatItKeptAndWhatItCosts) {
  scheduler_.set_costs({0.010, 1e3, 1});
  add({.prompt = 20, .max_tokens = 30});
  add({.prompt = 17, .max_tokens = 30});
  const auto [id, label, pause] = first_preemption();
  EXPECT_EQ(id, 2U);
  EXPECT_EQ(pause.how, Preemption::How::kRecompute);
  EXPECT_GT(pause.kept_tokens, 0);
  EXPECT_LT(pause.kept_tokens, pause.of_tokens);
  EXPECT_DOUBLE_EQ(pause.resume_seconds, 0.010 * static_cast<double>(pause.of_tokens - pause.kept_tokens));
  EXPECT_EQ(describe("7", {Preemption::How::kRecompute, 480, 512, 0.09}),
            "paused request 7, kept 480 of 512 tokens, about 90 ms to resume");
}

TEST_F(PressureTest, WhoeverIsAboutToEndIsWorthWaitingFor) {
  scheduler_.set_costs({1, 1e-3, 1});
  add({.prompt = 20, .max_tokens = 20});
  add({.prompt = 21, .max_tokens = 20});
  const auto [id, label, pause] = first_preemption();
  EXPECT_EQ(pause.how, Preemption::How::kWait);
  EXPECT_EQ(id, 2U);
  int ended = 0;
  for (int i = 0; i < 200 && !scheduler_.idle(); ++i) ended += static_cast<int>(step().size());
  EXPECT_EQ(ended, 2);
}

TEST_F(PressureTest, StandingStillIsToldOnceHoweverLong) {
  scheduler_.set_costs({1, 1e-3, 1});
  add({.prompt = 8, .max_tokens = 17});  // six blocks at its end, when the other wants a seventh
  const Sequence* other = add({.prompt = 12, .max_tokens = 30});
  EXPECT_EQ(first_preemption().preemption.how, Preemption::How::kWait);
  for (int i = 0; i < 2; ++i) {
    step();
    ASSERT_TRUE(other->stalled);
    EXPECT_TRUE(scheduler_.take_preemptions().empty()) << i;
  }
  EXPECT_EQ(scheduler_.counts().waits, 1);
}

TEST_F(PressureTest, OfEqualsTheYoungestPauses) {
  scheduler_.set_costs({1, 1e6, 1});
  for (int i = 0; i < 3; ++i) add({.prompt = 12, .max_tokens = 30});
  EXPECT_EQ(first_preemption().id, 3U);
}

TEST_F(PressureTest, ATenantAtItsLimitDoesNotPauseTheYoungerOfAnother) {
  scheduler_.set_costs({1, 1e6, 1});
  cache_.set_share(2, {0, 0.5, 1});
  add({.tenant = 2, .prompt = 9, .max_tokens = 14});
  const Sequence* second = add({.tenant = 2, .prompt = 9, .max_tokens = 14});
  add({.tenant = 1, .prompt = 5, .max_tokens = 14});  // cheaper to pause, and younger
  EXPECT_EQ(first_preemption().id, second->id);
}

TEST_F(PressureTest, WhoIsOverItsQuotaStopsNobodyElse) {
  cache_.set_share(1, {0, 0.5, 1});
  scheduler_.set_weight(1, 1000);  // it is always its turn
  add({.tenant = 1, .prompt = 16, .max_tokens = 9});
  add({.tenant = 2, .prompt = 4, .max_tokens = 9});
  step();
  add({.tenant = 1, .prompt = 9, .max_tokens = 3});  // its six blocks are nearly used up
  const Sequence* other = add({.tenant = 2, .prompt = 4, .max_tokens = 3});
  step();
  EXPECT_TRUE(other->lease.valid());
  EXPECT_EQ(scheduler_.waiting(), 1);
}

// Small ones of others pass one that waits for room, but not for ever.
TEST_F(PressureTest, OthersPassOneThatWaitsForRoomUntilTheyHaveFilledTheMemoryOnce) {
  add({.tenant = 1, .prompt = 20, .max_tokens = 28});
  step();
  const Sequence* large = add({.tenant = 2, .prompt = 30, .max_tokens = 3});
  int passed = 0;
  for (bool waits = false; !waits && !large->lease.valid();) {
    add({.tenant = 3, .prompt = 3, .max_tokens = 1});
    step();
    waits = scheduler_.waiting() > 1;
    passed += !waits;
  }
  EXPECT_GE(large->passed_blocks, cache_.blocks_alone());
  EXPECT_EQ(passed, cache_.blocks_alone() / 2);  // two blocks each
  int ended = 0;
  for (int i = 0; i < 200 && !scheduler_.idle(); ++i) ended += static_cast<int>(step().size());
  EXPECT_TRUE(scheduler_.idle());
}

// All places are taken by one: another gets its part of them at once, and no more.
TEST_F(FairnessTest, PlacesToRunInAreSharedAmongTenants) {
  scheduler_ = Scheduler({100, 4, 0});
  for (int i = 0; i < 6; ++i) add({.tenant = 1, .max_tokens = 400});
  for (int i = 0; i < 3; ++i) step();
  ASSERT_EQ(scheduler_.running(), 4);
  std::vector<const Sequence*> others;
  for (int i = 0; i < 4; ++i) others.push_back(add({.tenant = 2, .max_tokens = 400}));
  step();
  EXPECT_TRUE(others[0]->lease.valid());
  for (int i = 0; i < 20; ++i) step();  // until it was served no more than the other
  EXPECT_EQ(scheduler_.running(), 4);
  EXPECT_EQ(std::ranges::count_if(others, [](const Sequence* s) { return s->lease.valid(); }), 2);
  const auto paused = scheduler_.preemptions();
  for (int i = 0; i < 30; ++i) step();
  EXPECT_EQ(scheduler_.preemptions(), paused);  // and so it stays
}

// All room is one tenant's: another that runs nothing does not wait until one of those answers ends.
TEST_F(PressureTest, ATenantThatRunsNothingGetsRoomOfOneThatRunsSeveral) {
  scheduler_ = Scheduler({100, 8, 0});
  for (int i = 0; i < 3; ++i) add({.tenant = 1, .prompt = 13, .max_tokens = 20});
  step();
  const Sequence* large = add({.tenant = 2, .prompt = 13, .max_tokens = 2});
  int steps = 0;
  while (!large->lease.valid() && steps < 100) ++steps, step();
  EXPECT_LE(steps, 17);
  int ended = 0;
  for (int i = 0; i < 400 && !scheduler_.idle(); ++i) ended += static_cast<int>(step().size());
  EXPECT_TRUE(scheduler_.idle());
}

TEST_F(PressureTest, WithinATenantNobodyPassesOneThatWaitsForRoom) {
  add({.tenant = 1, .prompt = 24, .max_tokens = 6});
  step();
  add({.tenant = 2, .prompt = 30, .max_tokens = 3});
  const Sequence* small = add({.tenant = 2, .prompt = 3, .max_tokens = 3});
  step();
  EXPECT_FALSE(small->lease.valid());
  EXPECT_EQ(scheduler_.waiting(), 2);
}

TEST_F(PressureTest, WhatIsGuaranteedIsTakenBackFromWhoWasLentIt) {
  cache_.set_share(2, {0.5, 1, 1});
  const Sequence* oldest = add({.tenant = 1, .prompt = 8, .max_tokens = 30});
  const Sequence* borrower = add({.tenant = 1, .prompt = 24, .max_tokens = 10});
  for (int i = 0; i < 6; ++i) step();
  ASSERT_TRUE(borrower->lease.valid());
  const Sequence* owner = add({.tenant = 2, .prompt = 16, .max_tokens = 2});
  step();
  EXPECT_TRUE(owner->lease.valid());
  EXPECT_TRUE(oldest->lease.valid());
  EXPECT_FALSE(borrower->lease.valid());
  EXPECT_EQ(borrower->record.preemptions, 1);
  int ended = 0;
  for (int i = 0; i < 400 && !scheduler_.idle(); ++i) ended += static_cast<int>(step().size());
  EXPECT_EQ(ended, 3);
}

TEST_F(PressureTest, ATenantAtItsLimitPausesItsOwn) {
  scheduler_.set_costs({1, 1e6, 1});
  cache_.set_share(2, {0, 0.5, 1});
  add({.tenant = 1, .prompt = 8, .max_tokens = 12});
  const Sequence* first = add({.tenant = 2, .prompt = 9, .max_tokens = 14});
  const Sequence* second = add({.tenant = 2, .prompt = 9, .max_tokens = 14});
  const auto [id, label, pause] = first_preemption();
  EXPECT_EQ(id, second->id);
  EXPECT_TRUE(first->lease.valid());
}

TEST_F(PressureTest, ThoseOverTheirGuaranteePauseFirst) {
  scheduler_.set_costs({1, 1e6, 1});
  cache_.set_share(2, {0.5, 1, 1});
  add({.tenant = 1, .prompt = 12, .max_tokens = 30});
  add({.tenant = 2, .prompt = 5, .max_tokens = 30});
  const Sequence* over = add({.tenant = 3, .prompt = 12, .max_tokens = 30});  // dearer to pause than tenant 2's
  const auto [id, label, pause] = first_preemption();
  EXPECT_EQ(id, over->id);
}

}  // namespace
}  // namespace kvasir::testing
