// Who runs when: budgets, order, preemption.
#include "engine/schedule/scheduler.h"

#include <gtest/gtest.h>

namespace kvasir::testing {
namespace {

class SchedulerTest : public ::testing::Test {
 protected:
  KvCache make_cache(std::int64_t blocks) {
    CacheConfig config;
    config.block_tokens = 4;
    config.policy.groups = {{{}, 64}};
    config.pages = {in_order(blocks), 64};
    return KvCache(config);
  }

  Sequence* add(Scheduler& scheduler, RequestId id, int prompt) {
    Request request;
    for (int i = 0; i < prompt; ++i)
      request.prompt.push_back(static_cast<TokenId>(id * 1000 + static_cast<RequestId>(i)));
    auto sequence = std::make_unique<Sequence>(id, std::move(request), OnUpdate{});
    Sequence* out = sequence.get();
    scheduler.add(std::move(sequence));
    return out;
  }

  // As the engine does after a step: commit the rows, and append a token where one was due.
  void carry_out(KvCache& cache, const std::vector<ScheduledTokens>& plan) {
    for (const ScheduledTokens& one : plan) {
      Sequence& s = *one.sequence;
      const bool caught_up = one.rows == s.num_uncomputed_tokens();
      const auto done = static_cast<size_t>(s.lease.length());
      cache.commit(s.lease, std::span(s.tokens).subspan(done, static_cast<size_t>(one.rows)));
      ++s.record.steps;
      if (caught_up) s.tokens.push_back(7);
    }
    ASSERT_EQ(cache.problem(), std::nullopt);
  }

  static std::vector<std::pair<RequestId, int>> ids(const std::vector<ScheduledTokens>& plan) {
    std::vector<std::pair<RequestId, int>> out;
    for (const ScheduledTokens& one : plan) out.emplace_back(one.sequence->id, one.rows);
    return out;
  }

  using Plan = std::vector<std::pair<RequestId, int>>;
};

TEST_F(SchedulerTest, ABudgetCutsPromptsAndAnswersComeFirst) {
  KvCache cache = make_cache(100);
  Scheduler scheduler({8, 16, 0});
  add(scheduler, 1, 5);
  add(scheduler, 2, 10);
  auto plan = scheduler.schedule(cache);
  EXPECT_EQ(ids(plan), (Plan{{1, 5}, {2, 3}}));
  carry_out(cache, plan);
  plan = scheduler.schedule(cache);
  EXPECT_EQ(ids(plan), (Plan{{1, 1}, {2, 7}}));  // the answer first, then the rest of the prompt
  carry_out(cache, plan);
  EXPECT_EQ(ids(scheduler.schedule(cache)), (Plan{{1, 1}, {2, 1}}));
}

TEST_F(SchedulerTest, AChunkEndsWithTheBlockThatAMarkIsIn) {
  KvCache cache = make_cache(100);
  Scheduler scheduler({100, 16, 0});
  add(scheduler, 1, 30)->request.breakpoints = {{5, std::chrono::seconds(60)}, {12, std::chrono::seconds(60)}};
  std::vector<int> rows;
  for (int step = 0; step < 4; ++step) {
    const auto plan = scheduler.schedule(cache);
    rows.push_back(plan.at(0).rows);
    carry_out(cache, plan);
  }
  EXPECT_EQ(rows, (std::vector<int>{8, 4, 18, 1}));
}

TEST_F(SchedulerTest, NoMoreSequencesThanAllowed) {
  KvCache cache = make_cache(100);
  Scheduler scheduler({100, 2, 0});
  for (RequestId id = 1; id <= 4; ++id) add(scheduler, id, 3);
  EXPECT_EQ(ids(scheduler.schedule(cache)), (Plan{{1, 3}, {2, 3}}));
  EXPECT_EQ(scheduler.waiting(), 2);
}

TEST_F(SchedulerTest, TheYoungestIsPreemptedAndComesBackFirst) {
  KvCache cache = make_cache(6);
  Scheduler scheduler({100, 16, 0});
  Sequence* old = add(scheduler, 1, 7);
  Sequence* young = add(scheduler, 2, 7);
  add(scheduler, 3, 3);
  bool preempted = false;
  for (int step = 0; step < 12; ++step) {
    carry_out(cache, scheduler.schedule(cache));
    EXPECT_TRUE(old->lease.valid());  // the oldest never goes
    preempted |= young->record.preemptions > 0;
  }
  EXPECT_TRUE(preempted);
  EXPECT_GT(old->tokens.size(), 15U);
  old->finish = FinishReason::kLength;
  scheduler.take_finished();
  EXPECT_EQ(ids(scheduler.schedule(cache)).front().first, 2U);
}

TEST_F(SchedulerTest, ManyInATightPoolAllFinish) {
  KvCache cache = make_cache(7);
  Scheduler scheduler({16, 8, 5});
  for (RequestId id = 1; id <= 9; ++id) add(scheduler, id, static_cast<int>(id) + 3);
  int finished = 0;
  for (int step = 0; step < 2000 && !scheduler.idle(); ++step) {
    const auto plan = scheduler.schedule(cache);
    ASSERT_FALSE(plan.empty());
    carry_out(cache, plan);
    for (const ScheduledTokens& one : plan) {
      if (one.sequence->num_output_tokens() == 12) one.sequence->finish = FinishReason::kLength;
    }
    finished += static_cast<int>(scheduler.take_finished().size());
  }
  EXPECT_EQ(finished, 9);
  EXPECT_EQ(cache.pool(0).held(), 0);
}

}  // namespace
}  // namespace kvasir::testing
