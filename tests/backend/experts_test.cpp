// Routing, and experts on every backend that has them: against ref, and each row's bits against the row alone.
#include <cmath>

#include "backend/backends.h"
#include "backend/router.h"

namespace kvasir::testing {
namespace {

std::vector<RoutedExpert> routed(std::vector<float> logits, const RouterRule& rule) {
  std::vector<RoutedExpert> out(static_cast<size_t>(rule.used));
  route(logits, rule, out);
  return out;
}

TEST(Router, SoftmaxOfAllExpertsWeighsThoseThatAreChosen) {
  const auto chosen = routed({0.0F, std::log(3.0F), std::log(4.0F)}, {.used = 2});
  EXPECT_EQ(chosen[0].expert, 2);
  EXPECT_EQ(chosen[1].expert, 1);
  EXPECT_FLOAT_EQ(chosen[0].weight, 0.5F);
  EXPECT_FLOAT_EQ(chosen[1].weight, 3.0F / 8);
}

TEST(Router, NormalizedAndScaledWeights) {
  const auto chosen = routed({0.0F, std::log(3.0F), std::log(4.0F)}, {.used = 2, .normalized = true, .scale = 7.0F});
  EXPECT_FLOAT_EQ(chosen[0].weight, 4.0F);
  EXPECT_FLOAT_EQ(chosen[1].weight, 3.0F);
}

TEST(Router, SoftmaxOfTheChosenAlone) {
  const auto chosen = routed({100.0F, std::log(1.0F), 100.0F + std::log(3.0F)},
                             {.score = RouterRule::Score::kSoftmaxOfChosen, .used = 2});
  EXPECT_EQ(chosen[0].expert, 2);
  EXPECT_NEAR(chosen[0].weight, 0.75F, 1e-5);
  EXPECT_NEAR(chosen[1].weight, 0.25F, 1e-5);
}

TEST(Router, ABiasChoosesAndDoesNotWeigh) {
  const std::vector<float> bias{0.0F, 0.9F, 0.0F};
  const RouterRule rule{.score = RouterRule::Score::kSigmoid, .used = 1, .choice_bias = bias.data()};
  const auto chosen = routed({1.0F, 0.0F, 0.5F}, rule);
  EXPECT_EQ(chosen[0].expert, 1);
  EXPECT_FLOAT_EQ(chosen[0].weight, 0.5F);
}

TEST(Router, TheLowerNumberWinsATieAndNoNumberComesLast) {
  const auto chosen = routed({1.0F, 2.0F, 2.0F, NAN}, {.score = RouterRule::Score::kSigmoid, .used = 4});
  EXPECT_EQ(chosen[0].expert, 1);
  EXPECT_EQ(chosen[1].expert, 2);
  EXPECT_EQ(chosen[2].expert, 0);
  EXPECT_EQ(chosen[3].expert, 3);
}

// Experts as a file has them: gates and ups in one type are one matrix, in two they are two.
class SomeExperts {
 public:
  SomeExperts(Backend& on, int count, DType gates, DType ups) {
    for (int i = 0; i < count; ++i) {
      const auto seed = static_cast<std::uint64_t>(10 * i);
      const OwnedWeight gate(kWidth, kHidden, gates, seed + 1);
      const OwnedWeight up(kWidth, kHidden, ups, seed + 2);
      const OwnedWeight down(kHidden, kWidth, gates, seed + 3);
      ExpertWeights one;
      if (gates == ups) {
        const std::vector<HostWeight> both{gate.view, up.view};
        one.gate = keep(on.load(both));
      } else {
        one.gate = keep(on.load({&gate.view, 1}));
        one.up = keep(on.load({&up.view, 1}));
      }
      one.down = keep(on.load({&down.view, 1}));
      experts_.push_back(one);
    }
  }

  std::vector<float> run(Backend& on, const OwnedMatrix& x, const OwnedMatrix& logits, const RouterRule& rule) const {
    OwnedMatrix out(x.view.rows, kHidden);
    on.run(ExpertsOp{x.view, logits.view, rule, std::span<const ExpertWeights>(experts_), out.view});
    return out.values;
  }

  static constexpr int kHidden = 64;
  static constexpr int kWidth = 96;

 private:
  const Weight* keep(std::unique_ptr<Weight> weight) { return parts_.emplace_back(std::move(weight)).get(); }

  std::vector<std::unique_ptr<Weight>> parts_;
  std::vector<ExpertWeights> experts_;
};

class ExpertsTest : public OpTest {
 protected:
  void SetUp() override {
    if (tested_->limits().experts == 0) GTEST_SKIP() << "this backend has no experts";
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, ExpertsTest, ::testing::ValuesIn(all_forms()), form_name);

TEST_P(ExpertsTest, AgreeWithRef) {
  for (const auto& [gates, ups] : {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kBF16, DType::kBF16},
                                   std::pair{DType::kQ8_0, DType::kQ4_0}}) {
    const SomeExperts expected(*ref_, 6, gates, ups);
    const SomeExperts tested(*tested_, 6, gates, ups);
    for (const int rows : {1, 7, 40}) {
      const OwnedMatrix x(rows, SomeExperts::kHidden, 5);
      const OwnedMatrix logits(rows, 6, 6);
      for (const int used : {1, 3, 6}) {
        const RouterRule rule{.used = used, .normalized = true};
        EXPECT_LT(relative_error(tested.run(*tested_, x, logits, rule), expected.run(*ref_, x, logits, rule)), 1e-5)
            << name_of(gates) << " " << rows << " rows, " << used;
      }
    }
  }
}

TEST_P(ExpertsTest, ARowsBitsAreItsOwn) {
  const SomeExperts experts(*tested_, 6, DType::kBF16, DType::kBF16);
  const OwnedMatrix x(33, SomeExperts::kHidden, 7);
  const OwnedMatrix logits(33, 6, 8);
  const RouterRule rule{.used = 2};
  const std::vector<float> together = experts.run(*tested_, x, logits, rule);
  for (int r = 0; r < 33; ++r) {
    OwnedMatrix row(1, SomeExperts::kHidden);
    OwnedMatrix row_logits(1, 6);
    std::copy_n(x.view.row(r), SomeExperts::kHidden, row.view.row(0));
    std::copy_n(logits.view.row(r), 6, row_logits.view.row(0));
    const std::vector<float> alone = experts.run(*tested_, row, row_logits, rule);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + r * SomeExperts::kHidden)) << r;
  }
}

}  // namespace
}  // namespace kvasir::testing
