// Penalties, biases, and which parameters are refused. sample() changes the logits in place, which shows the
// formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "sample/sampler.h"

namespace kvasir {
namespace {

using Logits = std::vector<float>;

Logits penalized(const SamplingParams& params, const std::vector<TokenId>& prompt, const std::vector<TokenId>& answer,
                 Logits logits) {
  Sampler sampler(params, prompt);
  for (const TokenId token : answer) sampler.accept(token);
  sampler.sample(logits, 0);
  return logits;
}

TEST(Penalty, NoneLeavesTheLogitsAlone) { EXPECT_EQ(penalized({}, {0, 1}, {1, 2}, {1, -2, 3}), (Logits{1, -2, 3})); }

TEST(Penalty, RepetitionDividesPositiveAndMultipliesNegativeLogits) {
  EXPECT_EQ(penalized({.repetition_penalty = 2.0F}, {0, 1, 1}, {2, 2, 2}, {4, -3, 5, 7, -7}),
            (Logits{2, -6, 2.5F, 7, -7}));
  EXPECT_EQ(penalized({.repetition_penalty = 0.5F}, {0, 1}, {}, {4, -3, 5}), (Logits{8, -1.5F, 5}));
}

TEST(Penalty, FrequencyCountsTheAnswerAndNotThePrompt) {
  EXPECT_EQ(penalized({.frequency_penalty = 0.5F}, {0, 0, 0}, {1, 2, 2, 2}, {1, 1, 1, 1}),
            (Logits{1, 0.5F, -0.5F, 1}));
}

TEST(Penalty, PresenceIsSubtractedOnceForTheAnswerAndNotThePrompt) {
  EXPECT_EQ(penalized({.presence_penalty = 0.25F}, {0, 0}, {1, 2, 2, 2}, {1, 1, 1, 1}), (Logits{1, 0.75F, 0.75F, 1}));
}

TEST(Penalty, NegativePenaltiesEncourage) {
  EXPECT_EQ(penalized({.frequency_penalty = -1.0F, .presence_penalty = -2.0F}, {}, {0, 0}, {1, 1}), (Logits{5, 1}));
}

TEST(Penalty, AllTogether) {
  // 6 / 2 - 2 · 0.5 - 0.25, and of the prompt 6 / 2 alone.
  EXPECT_EQ(penalized({.repetition_penalty = 2.0F, .frequency_penalty = 0.5F, .presence_penalty = 0.25F}, {1}, {0, 0},
                      {6, 6, 6}),
            (Logits{1.75F, 3, 6}));
}

TEST(Penalty, ChangesTheChoice) {
  Sampler sampler({.temperature = 0.0F, .frequency_penalty = 1.0F}, {});
  std::vector<TokenId> answer;
  for (Position position = 0; position < 6; ++position) {
    Logits logits{2.5F, 2.0F, 0.0F};
    answer.push_back(sampler.sample(logits, position));
    sampler.accept(answer.back());
  }
  EXPECT_EQ(answer, (std::vector<TokenId>{0, 1, 0, 1, 0, 1}));
}

TEST(LogitBias, IsAddedAndForeignTokensAreIgnored) {
  const float forbid = -std::numeric_limits<float>::infinity();
  const SamplingParams params{
      .logit_bias = {{0, 1.5F}, {2, -100.0F}, {99, 5.0F}, {-1, 5.0F}, {1, forbid}, {0, 0.5F}}};
  EXPECT_EQ(penalized(params, {}, {}, {1, 1, 1}), (Logits{3, forbid, -99}));
}

TEST(LogitBias, DecidesTheGreedyChoice) {
  Sampler sampler({.temperature = 0.0F, .logit_bias = {{2, 10.0F}}}, {});
  Logits logits{5, 4, 0};
  EXPECT_EQ(sampler.sample(logits, 0), 2);
}

void expect_refused(const SamplingParams& params, const std::string& name) {
  try {
    check_sampling(params, "request 7");
    ADD_FAILURE() << name;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kUsage);
    EXPECT_EQ(error.parts().where, "request 7");
    EXPECT_EQ(error.parts().what.rfind(name + " is ", 0), 0U) << error.what();
    EXPECT_FALSE(error.parts().fix.empty());
  }
}

TEST(CheckSampling, AcceptsTheEdges) {
  EXPECT_NO_THROW(check_sampling({}, "x"));
  EXPECT_NO_THROW(check_sampling({.temperature = 0, .top_k = 0, .top_p = 0, .min_p = 0}, "x"));
  EXPECT_NO_THROW(check_sampling({.temperature = 100, .top_k = 1 << 30, .top_p = 1, .min_p = 1}, "x"));
  EXPECT_NO_THROW(
      check_sampling({.repetition_penalty = 0.01F, .frequency_penalty = -100, .presence_penalty = 100}, "x"));
}

TEST(CheckSampling, RefusesWhatIsOutOfRangeByName) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {-0.1F, 100.5F, nan, INFINITY, -INFINITY}) {
    expect_refused({.temperature = bad}, "temperature");
    expect_refused({.top_p = bad}, "top_p");
    expect_refused({.min_p = bad}, "min_p");
    expect_refused({.repetition_penalty = bad}, "repetition_penalty");
  }
  expect_refused({.repetition_penalty = 0.0F}, "repetition_penalty");
  for (const float bad : {-100.5F, 100.5F, nan, INFINITY}) {
    expect_refused({.frequency_penalty = bad}, "frequency_penalty");
    expect_refused({.presence_penalty = bad}, "presence_penalty");
  }
  expect_refused({.top_k = -1}, "top_k");
}

}  // namespace
}  // namespace kvasir
