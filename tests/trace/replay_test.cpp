// What a replay foretells of traces whose answer is known.
#include "trace/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "model/known_models.h"

namespace kvasir {
namespace {

// 256 bytes a token in f16.
ModelSpec small_spec() {
  return parse_shape("layers=2,hidden=64,ffn=64,heads=4,kv_heads=2,head_dim=16,vocab=101,context=65536,dtype=f32");
}

// 1 ms a step and 0.1 ms a row.
StepCosts even_costs() {
  StepCosts costs;
  for (const double rows : {1.0, 1000.0}) costs.add(StepCostCell{1, rows, 0, 1, 1e-3 + 1e-4 * rows});
  return costs;
}

TracedRequest asked(double at, std::int64_t prompt, std::int64_t answer, std::vector<std::int64_t> hashes = {}) {
  TracedRequest out;
  out.at = at;
  out.prompt_tokens = prompt;
  out.answer_tokens = out.max_tokens = answer;
  out.hashes = std::move(hashes);
  out.hash_tokens = 512;
  return out;
}

ReplayPlan plan_with(std::int64_t tokens) {
  ReplayPlan plan{small_spec(), {}, even_costs()};
  plan.engine.kv_bytes = static_cast<std::uint64_t>(256 * tokens);
  plan.engine.swap_bytes = 0;
  return plan;
}

RequestTrace trace_of(std::vector<TracedRequest> requests) {
  RequestTrace out;
  out.requests = std::move(requests);
  return out;
}

TEST(Replay, OneRequestTakesItsSteps) {
  const Replayed replayed = replay(trace_of({asked(5, 600, 3)}), plan_with(4096));
  const RequestOutcomes& all = replayed.foretold;
  EXPECT_EQ(all.requests, 1);
  EXPECT_EQ(all.reused_tokens, 0);
  EXPECT_EQ(all.answer_tokens, 3);
  EXPECT_EQ(all.computed_tokens, 602);  // the last token is never read
  // 512 rows and 88 with the first token, then two of one.
  EXPECT_EQ(replayed.steps, 4);
  EXPECT_NEAR(all.first_token_seconds.at(0), 2e-3 + 600e-4, 1e-9);
  EXPECT_NEAR(all.seconds, 4e-3 + 602e-4, 1e-9);
  EXPECT_DOUBLE_EQ(all.queue_seconds.at(0), 0);
}

TEST(Replay, WhatBeginsAlikeIsFoundAndWhatIsEvictedIsNot) {
  const RequestTrace trace =
      trace_of({asked(0, 1024, 4, {1, 2}), asked(1, 1024, 4, {1, 2}), asked(2, 1024, 4, {1, 3}),
                asked(3, 1024, 4, {4, 5}), asked(4, 1024, 4, {1, 2})});
  // All find all: the whole prompt but its last token, half of it, nothing, and the whole again.
  const RequestOutcomes roomy = replay(trace, plan_with(65536)).foretold;
  EXPECT_NEAR(static_cast<double>(roomy.reused_tokens), 1023 + 512 + 0 + 1023, 4);
  EXPECT_EQ(roomy.prompt_tokens, 5 * 1024);
  // Where one sequence fits alone, the fourth takes the room of all that came before.
  const Replayed tight = replay(trace, plan_with(1040));
  EXPECT_NEAR(static_cast<double>(tight.foretold.reused_tokens), 1023 + 512 + 0 + 0, 4);
  EXPECT_GT(tight.evicted_blocks, 0);
}

TEST(Replay, ThoseThatComeTogetherWaitAndPause) {
  std::vector<TracedRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(asked(0, 200, 100));
  const RequestOutcomes roomy = replay(trace_of(requests), plan_with(8192)).foretold;
  EXPECT_EQ(roomy.preemptions, 0);
  EXPECT_EQ(quantile(roomy.queue_seconds, 0.2), 0);
  EXPECT_GT(quantile(roomy.queue_seconds, 1), 0);  // behind two steps of 512 rows
  const RequestOutcomes tight = replay(trace_of(requests), plan_with(1024)).foretold;
  EXPECT_GT(tight.preemptions + tight.waits, 0);
  EXPECT_GT(quantile(tight.queue_seconds, 1), quantile(roomy.queue_seconds, 1));
  EXPECT_EQ(tight.answer_tokens, 800);
  EXPECT_EQ(tight.refused, 0);
}

TEST(Replay, WhoNeverFitsIsRefused) {
  const RequestOutcomes all = replay(trace_of({asked(0, 2000, 10), asked(0, 100, 10)}), plan_with(1024)).foretold;
  EXPECT_EQ(all.refused, 1);
  EXPECT_EQ(all.requests, 1);
}

TEST(Replay, RequestsMayComeFaster) {
  std::vector<TracedRequest> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(asked(i, 500, 20));
  ReplayPlan plan = plan_with(65536);
  const RequestOutcomes slow = replay(trace_of(requests), plan).foretold;
  EXPECT_DOUBLE_EQ(slow.queue_seconds.back(), 0);
  plan.rate = 100;
  const RequestOutcomes fast = replay(trace_of(requests), plan).foretold;
  EXPECT_GT(fast.queue_seconds.back(), 0);
  EXPECT_LT(fast.seconds, slow.seconds / 5);
}

TEST(Replay, WhoLeavesBeforeTheFirstTokenLeavesAtThatTime) {
  TracedRequest leaves = asked(0, 60000, 0);
  leaves.max_tokens = 10;
  leaves.finish = FinishReason::kCancelled;
  leaves.measured = MeasuredRequest{.seconds = 0.3};
  const RequestOutcomes all = replay(trace_of({leaves, asked(0.1, 100, 2)}), plan_with(65536)).foretold;
  EXPECT_EQ(all.requests, 2);
  EXPECT_LT(all.computed_tokens, 5000);
  EXPECT_EQ(all.answer_tokens, 2);
  EXPECT_NEAR(all.seconds, 0.3, 0.1);
}

// A device is given steps ahead of their tokens: the same tokens in the same order, and whoever comes meanwhile waits
// a step longer.
TEST(Replay, OnADeviceStepsRunAhead) {
  std::vector<TracedRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(asked(0.013 * i, 100, 50));
  ReplayPlan plan = plan_with(65536);
  const Replayed host = replay(trace_of(requests), plan);
  plan.samples = TraceConfig::Samples::kOnDevice;
  const Replayed device = replay(trace_of(requests), plan);
  EXPECT_EQ(device.foretold.answer_tokens, host.foretold.answer_tokens);
  EXPECT_EQ(device.foretold.reused_tokens, host.foretold.reused_tokens);
  EXPECT_NEAR(device.foretold.seconds / host.foretold.seconds, 1, 0.1);
}

TEST(Replay, HostMemoryTakesThePlaceOfComputing) {
  std::vector<TracedRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(asked(0, 200, 100));
  ReplayPlan plan = plan_with(1024);
  const Replayed without = replay(trace_of(requests), plan);
  plan.engine.swap_bytes = plan.engine.kv_bytes;
  const Replayed with = replay(trace_of(requests), plan);
  EXPECT_EQ(without.scheduler.swaps, 0);
  EXPECT_GT(with.scheduler.swaps, 0);
  EXPECT_LE(with.foretold.computed_tokens, without.foretold.computed_tokens);
}

// Of a trace that says what was measured: prompt and answer as tags.
TracedRequest measured_turn(double at, double seconds, const std::string& prompt, const std::string& answer) {
  TracedRequest out = asked(at, std::ssize(prompt), std::ssize(answer));
  for (const char c : prompt + answer) out.tags += {'A', c};
  out.measured = MeasuredRequest{.computed_tokens = 1, .seconds = seconds};
  return out;
}

// On a slower machine the next turn comes later, and finds what the last one left.
TEST(Replay, NobodyAsksOnBeforeTheAnswerIsThere) {
  const std::string first(40, 'a');
  const std::string answer(30, 'b');
  const RequestTrace trace =
      trace_of({measured_turn(0, 0.01, first, answer), measured_turn(0.02, 0.01, first + answer + "more", "xyzxyz"),
                measured_turn(0.02, 0.01, std::string(40, 'c'), "xyzxyz")});
  const RequestOutcomes all = replay(trace, plan_with(65536)).foretold;
  EXPECT_EQ(all.reused_tokens, 64);                 // whole blocks of the 69 that were computed
  EXPECT_GT(all.seconds, 30 * 1e-3 + 10e-3);        // thirty steps, and the time to think
  EXPECT_LT(all.first_token_seconds.back(), 0.02);  // it counts from when it came then
}

TEST(Replay, DraftsAreAsOftenRightAsTheyWere) {
  TracedRequest plain = asked(0, 100, 60);
  plain.measured = MeasuredRequest{.computed_tokens = 1};
  TracedRequest drafted = plain;
  drafted.measured->drafted = 60;
  drafted.measured->accepted = 30;
  const Replayed without = replay(trace_of({plain}), plan_with(65536));
  const Replayed with = replay(trace_of({drafted}), plan_with(65536));
  EXPECT_EQ(with.foretold.answer_tokens, 60);
  EXPECT_NEAR(static_cast<double>(with.steps), static_cast<double>(without.steps) - 30, 3);
  EXPECT_NEAR(static_cast<double>(with.foretold.computed_tokens),
              static_cast<double>(without.foretold.computed_tokens) + 30, 4);
}

TEST(Replay, QuantilesAreOfThoseThatThereAre) {
  EXPECT_EQ(quantile({}, 0.5), 0);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 0.5), 2);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 0.95), 4);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 0), 1);
}

}  // namespace
}  // namespace kvasir
