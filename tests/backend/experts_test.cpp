// Routing, and experts on every backend that has them: against ref, and each row's bits against the row alone.
#include <algorithm>
#include <cmath>
#include <tuple>

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
struct Sizes {
  int experts = 6;
  int hidden = 64;
  int width = 96;
};

class SomeExperts {
 public:
  struct Types {
    DType gates;
    DType ups;
    WeightQuantization form = WeightQuantization::kAsStored;
    enum class Kind { kGated, kPlain } kind = Kind::kGated;
  };

  SomeExperts(Backend& on, const Sizes& sizes, const Types& types) : hidden_(sizes.hidden) {
    for (int i = 0; i < sizes.experts; ++i) {
      const auto seed = static_cast<std::uint64_t>(10 * i);
      const auto weight = [&](int outputs, int inputs, DType type, std::uint64_t number) {
        OwnedWeight made(outputs, inputs, type, seed + number);
        made.view.form = types.form;
        return made;
      };
      const OwnedWeight gate = weight(sizes.width, sizes.hidden, types.gates, 1);
      const OwnedWeight up = weight(sizes.width, sizes.hidden, types.ups, 2);
      const OwnedWeight down = weight(sizes.hidden, sizes.width, types.gates, 3);
      ExpertWeights one;
      if (types.kind == Types::Kind::kPlain) {
        one.up = keep(on.load({&up.view, 1}));
      } else if (types.gates == types.ups) {
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

  // All but the rows, the experts and the output is as in `like`.
  std::vector<float> run(Backend& on, const OwnedMatrix& x, const OwnedMatrix& logits, ExpertsOp like) const {
    OwnedMatrix out(x.view.rows, hidden_);
    like.x = x.view;
    like.logits = logits.view;
    like.experts = std::span<const ExpertWeights>(experts_);
    like.out = out.view;
    on.run(like);
    return out.values;
  }
  std::vector<float> run(Backend& on, const OwnedMatrix& x, const OwnedMatrix& logits, const RouterRule& rule) const {
    ExpertsOp like;
    like.rule = rule;
    return run(on, x, logits, like);
  }

 private:
  const Weight* keep(std::unique_ptr<Weight> weight) { return parts_.emplace_back(std::move(weight)).get(); }

  int hidden_;
  std::vector<std::unique_ptr<Weight>> parts_;
  std::vector<ExpertWeights> experts_;
};

class ExpertsTest : public OpTest {
 protected:
  // A GPU rounds what is between an expert's products, and rows beside quantized weights, as its products do: a
  // number that lies between two of them may fall to either side.
  static double tolerance(const SomeExperts::Types& types) {
    const bool exact = types.gates == DType::kF32 && types.form == WeightQuantization::kAsStored;
    return !on_gpu(GetParam()) || exact ? 1e-5 : 3e-3;
  }
  // Of a rule and all beside it, with rows of noise.
  double error(const Sizes& sizes, const SomeExperts::Types& types, int rows, const ExpertsOp& like) {
    Backend& ref = ref_for(types.gates);
    const OwnedMatrix x(rows, sizes.hidden, 5);
    const OwnedMatrix logits(rows, sizes.experts, 6);
    return relative_error(SomeExperts(*tested_, sizes, types).run(*tested_, x, logits, like),
                          SomeExperts(ref, sizes, types).run(ref, x, logits, like));
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, ExpertsTest, ::testing::ValuesIn(all_forms()), form_name);

const SomeExperts::Types kFloats{DType::kF32, DType::kF32};
const SomeExperts::Types kHalves{DType::kBF16, DType::kBF16};

TEST_P(ExpertsTest, AgreeWithRef) {
  const Sizes sizes;
  for (const SomeExperts::Types& types : {kFloats, kHalves, SomeExperts::Types{DType::kQ8_0, DType::kQ4_0},
                                          SomeExperts::Types{DType::kF16, DType::kBF16}}) {
    Backend& ref = ref_for(types.gates);
    const SomeExperts expected(ref, sizes, types);
    const SomeExperts tested(*tested_, sizes, types);
    for (const int rows : {1, 7, 40, 300}) {
      const OwnedMatrix x(rows, sizes.hidden, 5);
      const OwnedMatrix logits(rows, sizes.experts, 6);
      for (const int used : {1, 3, 6}) {
        const RouterRule rule{.used = used, .normalized = true};
        EXPECT_LT(relative_error(tested.run(*tested_, x, logits, rule), expected.run(ref, x, logits, rule)),
                  tolerance(types))
            << name_of(types.gates) << " " << rows << " rows, " << used;
      }
    }
  }
}

TEST_P(ExpertsTest, EveryRuleOfTheRouterAgreesWithRef) {
  const Sizes sizes{24, 40, 24};
  const std::vector<float> bias = noise_vector(24, 7);
  const std::vector<float> scale = noise_vector(24, 8);
  using Rule = RouterRule;
  for (const Rule::Score score : {Rule::Score::kSoftmax, Rule::Score::kSigmoid, Rule::Score::kSoftmaxOfChosen}) {
    for (const Rule::Weighs weighs : {Rule::Weighs::kOutputs, Rule::Weighs::kInputs}) {
      for (const auto& [groups, used_groups, by] :
           {std::tuple{1, 1, Rule::GroupScore::kTopTwo}, std::tuple{4, 2, Rule::GroupScore::kTopTwo},
            std::tuple{8, 3, Rule::GroupScore::kBest}, std::tuple{24, 5, Rule::GroupScore::kTopTwo}}) {
        for (const bool rest : {false, true}) {
          ExpertsOp like;
          like.rule = {score,
                       4,
                       rest,
                       rest ? 2.5F : 1.0F,
                       rest ? bias.data() : nullptr,
                       groups,
                       used_groups,
                       by,
                       rest ? scale.data() : nullptr,
                       weighs};
          EXPECT_LT(error(sizes, kFloats, 9, like), 1e-5)
              << static_cast<int>(score) << static_cast<int>(weighs) << " " << groups << rest;
        }
      }
    }
  }
}

TEST_P(ExpertsTest, ActivationsAndBiasesAgreeWithRef) {
  const Sizes sizes{5, 48, 20};
  const std::vector<float> gate_up = noise_vector(size_t{5} * 40, 9);
  const std::vector<float> down = noise_vector(size_t{5} * 48, 10);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kSwigluOai}) {
    for (const SomeExperts::Types& types : {kFloats, SomeExperts::Types{DType::kF32, DType::kBF16}}) {
      ExpertsOp like;
      like.rule.used = 2;
      like.activation = activation;
      like.limit = 0.9F;
      like.gate_up_bias = gate_up.data();
      like.down_bias = down.data();
      EXPECT_LT(error(sizes, types, 17, like), types.ups == DType::kF32 ? 1e-5 : tolerance(kHalves))
          << static_cast<int>(activation);
    }
  }
}

TEST_P(ExpertsTest, PlainOnesAgreeWithRef) {
  const Sizes sizes{5, 48, 20};
  const std::vector<float> up = noise_vector(size_t{5} * 20, 9);
  const std::vector<float> down = noise_vector(size_t{5} * 48, 10);
  for (SomeExperts::Types types : {kFloats, kHalves, SomeExperts::Types{DType::kF32, DType::kBF16}}) {
    types.kind = SomeExperts::Types::Kind::kPlain;
    for (const int rows : {1, 17, 200}) {
      ExpertsOp like;
      like.rule.used = 2;
      like.activation = rows == 1 ? Activation::kSilu : Activation::kReluSquared;
      EXPECT_LT(error(sizes, types, rows, like), tolerance(types)) << rows;
      like.gate_up_bias = up.data();
      like.down_bias = down.data();
      EXPECT_LT(error(sizes, types, rows, like), types.ups == DType::kF32 ? 1e-5 : tolerance(kHalves)) << rows;
    }
  }
}

// As many as large models have, and equal ones among them; few of them have many rows. A wrong expert is a third of a
// row, and a number that is rounded to the other side a ten-thousandth.
TEST_P(ExpertsTest, ManyExpertsAndTies) {
  const Sizes sizes{128, 64, 32};
  const SomeExperts expected(*ref_, sizes, kHalves);
  const SomeExperts tested(*tested_, sizes, kHalves);
  const RouterRule rule{.used = 8, .normalized = true};
  for (const int rows : {1, 300}) {
    const OwnedMatrix x(rows, sizes.hidden, 5);
    for (const float levels : {1.0F, 4.0F, 1e6F}) {
      OwnedMatrix logits(rows, sizes.experts, 6);
      for (float& value : logits.values) value = std::floor(value * levels) / levels;
      EXPECT_LT(relative_error(tested.run(*tested_, x, logits, rule), expected.run(*ref_, x, logits, rule)), 3e-3)
          << rows << " rows, " << levels;
    }
  }
}

// The cpu has no codes of 8 bits.
TEST_P(ExpertsTest, CodesOf8BitsAgreeWithRef) {
  if (!on_gpu(GetParam())) return;
  for (const WeightQuantization form : {WeightQuantization::kInt8, WeightQuantization::kFp8}) {
    for (const Sizes& sizes : {Sizes{}, Sizes{7, 72, 30}}) {
      for (const int rows : {1, 20, 200}) {
        ExpertsOp like;
        like.rule.used = 3;
        EXPECT_LT(error(sizes, {DType::kBF16, DType::kBF16, form}, rows, like), 3e-3) << name_of(form) << rows;
      }
    }
  }
}

TEST_P(ExpertsTest, ARowsBitsAreItsOwn) {
  const Sizes sizes;
  for (const SomeExperts::Types& types : {kFloats, kHalves, SomeExperts::Types{DType::kQ8_0, DType::kQ4_0}}) {
    const SomeExperts experts(*tested_, sizes, types);
    const OwnedMatrix x(133, sizes.hidden, 7);
    const OwnedMatrix logits(133, sizes.experts, 8);
    const RouterRule rule{.used = 2};
    const std::vector<float> together = experts.run(*tested_, x, logits, rule);
    for (int r = 0; r < 133; r += 4) {
      OwnedMatrix row(1, sizes.hidden);
      OwnedMatrix row_logits(1, sizes.experts);
      std::copy_n(x.view.row(r), sizes.hidden, row.view.row(0));
      std::copy_n(logits.view.row(r), sizes.experts, row_logits.view.row(0));
      const std::vector<float> alone = experts.run(*tested_, row, row_logits, rule);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + r * sizes.hidden)) << r;
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
