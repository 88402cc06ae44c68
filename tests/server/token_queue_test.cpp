#include "server/answer/token_queue.h"

#include <gtest/gtest.h>

namespace kvasir::testing {
namespace {

TokenEvent token_event(FinishReason finish = FinishReason::kNone) {
  TokenEvent event;
  event.token = 7;
  event.finish = finish;
  event.logprobs.emplace();
  event.logprobs->top.resize(20);
  return event;
}

TEST(TokenQueue, HoldsNoMoreThanItMayForWhoDoesNotRead) {
  TokenQueue queue;
  size_t taken = 0;
  while (queue.push(token_event())) ++taken;
  EXPECT_LT(taken * sizeof(TokenEvent), TokenQueue::kMostUnread);
  EXPECT_GT(taken, 10'000U);
  EXPECT_FALSE(queue.push(token_event()));                       // it is given up for good …
  EXPECT_FALSE(queue.push(token_event(FinishReason::kFailed)));  // … but for its end
  const std::vector<TokenEvent> events = queue.take();
  EXPECT_EQ(events.size(), taken + 2);
  EXPECT_EQ(events.back().finish, FinishReason::kFailed);
}

TEST(TokenQueue, IsWithoutABoundForWhoReads) {
  TokenQueue queue;
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_TRUE(queue.push(token_event()));
    if (i % 1000 == 0) queue.take();
  }
}

}  // namespace
}  // namespace kvasir::testing
