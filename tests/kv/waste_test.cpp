#include <gtest/gtest.h>

#include "../../bench/trace.h"

namespace kvasir {
namespace {

TEST(Waste, OfBlocksOfSixteenIsUnderFourPercentOnChats) {
  const Waste waste = measure_waste(chat_trace(2000, 1), 64, 16);
  RecordProperty("waste_percent", std::to_string(waste.percent()));
  std::printf("waste: %.2f %% of the rows of held blocks\n", waste.percent());
  EXPECT_GT(waste.percent(), 0.0);
  EXPECT_LT(waste.percent(), 4.0);
}

TEST(Waste, OfBlocksOfOneIsNone) { EXPECT_EQ(measure_waste(chat_trace(100, 2), 16, 1).unused, 0.0); }

TEST(Trace, IsTheSameEveryTimeAndLooksLikeChats) {
  const std::vector<Chat> trace = chat_trace(20'000, 1);
  const std::vector<Chat> again = chat_trace(20'000, 1);
  double prompt = 0;
  double answer = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    EXPECT_EQ(trace[i].prompt, again[i].prompt);
    EXPECT_EQ(trace[i].answer, again[i].answer);
    prompt += trace[i].prompt;
    answer += trace[i].answer;
  }
  EXPECT_NEAR(prompt / 20'000, 150, 20);  // the cut of the longest tail takes a little from 160
  EXPECT_NEAR(answer / 20'000, 335, 20);
}

}  // namespace
}  // namespace kvasir
