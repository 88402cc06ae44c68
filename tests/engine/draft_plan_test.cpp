// What is verified of drafts: what pays, by what was measured.
#include <gtest/gtest.h>

#include <bit>

#include "engine/draft/draft_balance.h"
#include "engine/draft/draft_plan.h"

namespace kvasir::testing {
namespace {

TEST(DraftPlanTest, VerifiesWhatPays) {
  Draft sure;
  Draft doubtful;
  for (TokenId t = 0; t < 8; ++t) sure.add(t, 0.97F);
  for (TokenId t = 0; t < 8; ++t) doubtful.add(t, 0.2F);
  Acceptance acceptance;
  const std::vector<DraftOffer> offers{{&sure, &acceptance}, {&doubtful, &acceptance}};
  const auto lengths = [&](double row, int most) {
    PassCosts costs;
    for (int rows = 1; rows <= 40; ++rows) costs.measure(rows, 1e-3 + row * rows);
    DraftPlan plan;
    std::vector<size_t> out;
    for (const std::uint64_t tokens : plan.choose(offers, {2, 2, most}, costs).tokens) {
      out.push_back(static_cast<size_t>(std::popcount(tokens)));
    }
    return out;
  };
  EXPECT_EQ(lengths(1e-7, 64)[0], 8U);                       // rows cost nearly nothing
  EXPECT_LE(lengths(1e-7, 64)[1], 2U);                       // and yet not what is wrong
  EXPECT_EQ(lengths(1e-7, 3), (std::vector<size_t>{3, 0}));  // the likeliest first
  const auto some = lengths(2e-4, 64);
  EXPECT_GT(some[0], 0U);
  EXPECT_EQ(some[1], 0U);
  EXPECT_EQ(lengths(1, 64), (std::vector<size_t>{0, 0}));  // a row costs as much as a step
}

TEST(DraftPlanTest, LearnsWhatIsRightOfASequence) {
  Acceptance acceptance;
  const double before = acceptance.of(0.95F);
  for (int i = 0; i < 60; ++i) acceptance.learn(0.95F, false);
  EXPECT_LT(acceptance.of(0.95F), 0.1);
  EXPECT_EQ(acceptance.of(0.1F), Acceptance().of(0.1F));  // how sure it was makes the difference
  for (int i = 0; i < 100; ++i) acceptance.learn(0.95F, true);
  EXPECT_GT(acceptance.of(0.95F), before);
}

TEST(PassCostsTest, EstimatesWhatWasNotMeasured) {
  PassCosts costs;
  EXPECT_FALSE(costs.known());
  costs.set_row_seconds(1e-4);
  costs.measure(1, 1e-2);
  EXPECT_DOUBLE_EQ(costs.seconds(1), 1e-2);
  EXPECT_DOUBLE_EQ(costs.seconds(5), 1e-2 + 4e-4);
  costs.measure(8, 2.4e-2);
  EXPECT_NEAR(costs.seconds(4), 1.6e-2, 1e-9);
  for (int i = 0; i < 60; ++i) costs.measure(8, 1e-2);
  EXPECT_NEAR(costs.seconds(8), 1e-2, 1e-4);
  for (int rows = 1; rows < 5000; rows += 3) EXPECT_GT(costs.seconds(rows), 0);
}

// Whatever a try costs, tries together cost a small part of the time.
TEST(DraftBalanceTest, WhatDoesNotPayIsTriedRarely) {
  for (const double price : {0.5, 3.0, 7.0}) {
    DraftBalance balance;
    EXPECT_TRUE(balance.may_spend(100));  // on trust, until it is known
    balance.guessed(48);
    EXPECT_FALSE(balance.may_spend(price));
    int tries = 0;
    for (int step = 0; step < 100000; ++step) {
      const bool tried = balance.may_spend(price);
      tries += tried ? 1 : 0;
      balance.add_step(1);
      if (tried) balance.spend(price);
    }
    EXPECT_NEAR(tries * price, 1000, 20) << price;
  }
}

// Whose drafts take more than they save is believed so seldom that he loses little; who saves goes on.
TEST(DraftBalanceTest, WhoFlattersHimselfIsFoundOut) {
  for (const double saved : {-0.3, -1.5, 0.1}) {
    DraftBalance balance;
    balance.guessed(48);
    int drafts = 0;
    for (int step = 0; step < 100000; ++step) {
      const bool drafted = balance.believed();
      drafts += drafted ? 1 : 0;
      balance.add_step(1);
      if (drafted) balance.book(saved);
    }
    if (saved > 0) {
      EXPECT_EQ(drafts, 100000);
    } else {
      EXPECT_NEAR(drafts * -saved, 1000, 30) << saved;
    }
  }
  DraftBalance balance;
  balance.guessed(48);
  balance.add_step(1);
  balance.book(-1e6);  // the machine did something else
  for (int step = 0; step < 300; ++step) balance.add_step(1);
  EXPECT_TRUE(balance.believed());
}

}  // namespace
}  // namespace kvasir::testing
