#include "trace/step_costs.h"

#include <gtest/gtest.h>

namespace kvasir {
namespace {

double law(const StepSize& step) { return 1e-3 + 3e-5 * step.rows + 2e-8 * step.keys + 4e-5 * step.samples; }

// Steps as a server has them: prompts' chunks, answers of a few, and both together.
StepCosts measured() {
  StepCosts costs;
  const auto add = [&costs](const StepSize& step) {
    costs.add(StepTime{static_cast<int>(step.rows), static_cast<int>(step.samples),
                       static_cast<std::int64_t>(step.keys), law(step)});
  };
  for (int i = 0; i < 400; ++i) {
    const double depth = 10.0 * (i % 40);
    for (const double rows : {1.0, 2.0, 3.0, 6.0, 12.0}) add({rows, rows * depth, rows});
    for (const double rows : {12.0, 100.0, 512.0}) add({rows, rows * (depth + rows / 2), 1});
    add({100, 100 * depth, 40});
  }
  return costs;
}

TEST(StepCostModel, FindsWhatRowsKeysAndSamplesCost) {
  const StepCostModel model(measured());
  EXPECT_NEAR(model.key_seconds(), 2e-8, 4e-10);
  EXPECT_NEAR(model.sample_seconds(), 4e-5, 2e-6);
  for (const StepSize& step : {StepSize{1, 50, 1}, StepSize{4, 800, 4}, StepSize{40, 4000, 20},
                               StepSize{300, 60000, 1}, StepSize{512, 200000, 0}}) {
    EXPECT_NEAR(model.seconds(step) / law(step), 1, 0.05) << step.rows;
  }
}

TEST(StepCostModel, FewerRowsThanEverAreAStepAndMoreTakeTheirPart) {
  StepCosts costs;
  costs.add(StepTime{8, 0, 8, 8e-3});
  costs.add(StepTime{64, 0, 64, 32e-3});
  const StepCostModel model(costs);
  EXPECT_DOUBLE_EQ(model.seconds({1, 0, 0}), 8e-3);
  EXPECT_DOUBLE_EQ(model.seconds({36, 0, 0}), 20e-3);
  EXPECT_DOUBLE_EQ(model.seconds({128, 0, 0}), 64e-3);
  EXPECT_DOUBLE_EQ(model.key_seconds(), 0);
}

TEST(StepCostModel, NothingCostsLessThanNothing) {
  StepCosts costs;  // deeper steps were faster: the machine was another
  costs.add(StepTime{4, 4, 40, 9e-3});
  costs.add(StepTime{4, 4, 4000, 1e-3});
  costs.add(StepTime{4, 0, 40, 12e-3});
  const StepCostModel model(costs);
  EXPECT_GE(model.key_seconds(), 0);
  EXPECT_GE(model.sample_seconds(), 0);
  EXPECT_GE(model.seconds({4, 0, 0}), 0);
}

// Few steps on a busy machine: some took ten times as long as others of their kind.
TEST(StepCostModel, NoKindOfStepIsForetoldFarBeyondWhatItTook) {
  StepCosts costs;
  costs.add(StepTime{7, 7, 1500, 10e-3});
  costs.add(StepTime{7, 7, 2200, 40e-3});
  costs.add(StepTime{7, 7, 2700, 35e-3});
  costs.add(StepTime{300, 2, 24000, 0.2});
  costs.add(StepTime{512, 5, 39000, 0.3});
  const StepCostModel model(costs);
  EXPECT_LE(model.key_seconds(), 0.2 / 24000);
  EXPECT_LT(model.seconds({512, 130000, 1}), 3 * 0.3 * 130000 / 39000);
}

// More rows never take less.
TEST(StepCostModel, AnOutlierBelongsToItsNeighbours) {
  StepCosts costs;
  costs.add(StepTime{8, 0, 8, 10e-3});
  costs.add(StepTime{16, 0, 16, 90e-3});
  costs.add(StepTime{32, 0, 32, 30e-3});
  const StepCostModel model(costs);
  EXPECT_DOUBLE_EQ(model.seconds({24, 0, 0}), 60e-3);
  EXPECT_LE(model.seconds({16, 0, 0}), 60e-3);
}

TEST(StepCosts, SumsOfOneKindAreOneCell) {
  StepCosts costs;
  for (int i = 0; i < 1000; ++i) costs.add(StepTime{16, 16, 16 * 100 + i, 1e-3});
  ASSERT_LE(costs.cells().size(), 3U);
  double seconds = 0;
  for (const StepCostCell& cell : costs.cells()) seconds += cell.seconds;
  EXPECT_NEAR(seconds, 1.0, 1e-9);
  costs.add(StepCostCell{0, 0, 0, 0, 5});  // of nothing
  EXPECT_LE(costs.cells().size(), 3U);
}

}  // namespace
}  // namespace kvasir
