#include "server/mailbox.h"

#include <gtest/gtest.h>

namespace kvasir::testing {
namespace {

TokenNews token_news(FinishReason finish = FinishReason::kNone) {
  TokenNews news;
  news.token = 7;
  news.finish = finish;
  news.logprobs.emplace();
  news.logprobs->top.resize(20);
  return news;
}

TEST(Mailbox, HoldsNoMoreThanItMayForWhoDoesNotRead) {
  Mailbox mailbox;
  size_t taken = 0;
  while (mailbox.push(token_news())) ++taken;
  EXPECT_LT(taken * sizeof(TokenNews), Mailbox::kMostUnread);
  EXPECT_GT(taken, 10'000U);
  EXPECT_FALSE(mailbox.push(token_news()));                       // it is given up for good …
  EXPECT_FALSE(mailbox.push(token_news(FinishReason::kFailed)));  // … but for its end
  const std::vector<TokenNews> news = mailbox.take();
  EXPECT_EQ(news.size(), taken + 2);
  EXPECT_EQ(news.back().finish, FinishReason::kFailed);
}

TEST(Mailbox, IsWithoutABoundForWhoReads) {
  Mailbox mailbox;
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_TRUE(mailbox.push(token_news()));
    if (i % 1000 == 0) mailbox.take();
  }
}

}  // namespace
}  // namespace kvasir::testing
