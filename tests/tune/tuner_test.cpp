#include "tune/tuner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/make_backend.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mmap_file.h"
#include "eval/policy_engine.h"
#include "support/far_backend.h"
#include "tune/head_probe.h"

namespace kvasir {
namespace {

// The shipped draft model: two layers, one KV head of 64.
class TunerTest : public ::testing::Test {
 protected:
  TextWindows windows(std::int64_t tokens) const {
    const MmapFile file(KVASIR_SOURCE_DIR "/models/held-out.txt");
    std::vector<TokenId> text = tokenizer_.encode(file.text().substr(0, 20000), Tokenizer::Specials::kParse);
    text.resize(static_cast<size_t>(tokens));
    return {std::move(text), {128, 0, {0}}};
  }

  Tokenizer tokenizer_ = Tokenizer::load(KVASIR_SOURCE_DIR "/models/tales-draft");
  QuantizeOneHeadBackend backend_{
      std::make_unique<testing::FarBackend>(make_backend({"cpu", 1, "auto", ActivationPrecision::kAsWeights}))};
  std::unique_ptr<Model> model_ = load_model(KVASIR_SOURCE_DIR "/models/tales-draft", backend_, {512, {}});
};

TEST_F(TunerTest, ChoosesAMixOfTheSizeThatIsNoWorseThanOneFormatForAll) {
  PolicyEvaluator evaluator(backend_, *model_, tokenizer_, windows(400), std::nullopt);
  TuneSettings settings;
  settings.recents = {0, 16};
  settings.candidates = 6;
  const TuneResult result = tune_layers(evaluator, *model_, settings, {});
  ASSERT_EQ(result.sensitivity.size(), 2U);
  EXPECT_EQ(result.sensitivity[0].base, 0);
  EXPECT_GT(result.sensitivity[1].base, 0);  // recent tokens in int8
  for (const auto& layer : result.sensitivity[0].harm) {
    for (const std::vector<double>& part : layer) {  // int8, int4, int2
      EXPECT_LT(part[0], part[1]);
      EXPECT_LT(part[1], part[2]);
    }
  }
  ASSERT_FALSE(result.candidates.empty());
  EXPECT_LE(result.candidates.size(), 6U);
  for (const TunedMix& one : result.candidates) {
    EXPECT_LE(one.bits, 4 + 1e-9) << one.policy;
    EXPECT_TRUE(one.measured) << one.policy;
  }
  const auto int4 = std::ranges::find(result.uniform, "int4", &TunedMix::policy);
  ASSERT_NE(int4, result.uniform.end());
  EXPECT_DOUBLE_EQ(int4->bits, 4);
  EXPECT_LE(result.best.bits, 4 + 1e-9);
  EXPECT_LE(result.best.measured->kl, int4->measured->kl);
  EXPECT_LE(result.best.measured->surprise, int4->measured->surprise);
  EXPECT_GE(result.best.measured->same_top, int4->measured->same_top);
  for (size_t i = 1; i < result.front.size(); ++i) {
    EXPECT_GT(result.front[i].bytes_per_token, result.front[i - 1].bytes_per_token);
    EXPECT_LT(result.front[i].foretold, result.front[i - 1].foretold);
  }
  settings.bits = 1.5;
  EXPECT_THROW(tune_layers(evaluator, *model_, settings, {}), Error);
}

TEST_F(TunerTest, WithRoomForItTheFinestFormatIsChosen) {
  PolicyEvaluator evaluator(backend_, *model_, tokenizer_, windows(250), std::nullopt);
  TuneSettings settings;
  settings.recents = {0};
  settings.bits = 8;
  settings.candidates = 3;
  settings.front_points = 2;
  EXPECT_EQ(tune_layers(evaluator, *model_, settings, {}).best.policy, "int8");
}

TEST_F(TunerTest, WhatIsMeasuredIsWhatAnEvaluationMeasures) {
  const std::vector<std::string> policies{"int4", "f32, 1:int4/f32"};
  PolicyEvaluator evaluator(backend_, *model_, tokenizer_, windows(250), std::nullopt);
  evaluator.measure(policies, {});
  Evaluation evaluation(backend_, *model_, tokenizer_,
                        {windows(250), with_reference(policies), std::nullopt, std::nullopt}, {});
  evaluation.run({});
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(evaluator.of(policies[i]).kl, evaluation.progress()[i + 1].quality.kl);
}

// With one head a layer, the head's harm is the layer's but for the rounding of queries.
TEST_F(TunerTest, AHeadAloneIsALayerWhereThereIsOneHead) {
  const TextWindows text = windows(250);
  PolicyEvaluator evaluator(backend_, *model_, tokenizer_, text, std::nullopt);
  const std::vector<std::string> policies{"f32, 0:int4/f32", "f32, 0:f32/int4", "f32, 1:int4/f32", "f32, 1:f32/int4"};
  evaluator.measure(policies, {});
  const HeadHarm heads = probe_heads(backend_, *model_, text, KvFormat::kInt4, {});
  ASSERT_EQ(heads.size(), 2U);
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(heads[i / 2][i % 2].size(), 1U);
    const double expected = evaluator.of(policies[i]).mean_kl();
    EXPECT_NEAR(heads[i / 2][i % 2][0], expected, 0.15 * expected) << policies[i];
  }
  const HeadHarm exact = probe_heads(backend_, *model_, text, KvFormat::kF32, {});
  EXPECT_EQ(exact[0][0][0], 0.0);
  EXPECT_EQ(exact[1][1][0], 0.0);
}

TEST(RoundTrip, KeepsWhatTheFormatKeeps) {
  std::vector<float> row(64);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(mix(1, i, 0) % 2001) / 1000 - 1;
  const auto error = [&](KvFormat format) {
    std::vector<float> copy = row;
    round_trip(format, copy);
    double sum = 0;
    double own = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      sum += std::pow(copy[i] - row[i], 2);
      own += std::pow(row[i], 2);
    }
    return std::sqrt(sum / own);
  };
  EXPECT_EQ(error(KvFormat::kF32), 0.0);
  EXPECT_LT(error(KvFormat::kInt8), 0.02);
  EXPECT_LT(error(KvFormat::kInt4), 0.15);
  EXPECT_LT(error(KvFormat::kInt2), 0.5);
  EXPECT_GT(error(KvFormat::kInt2), error(KvFormat::kInt4));
}

}  // namespace
}  // namespace kvasir
