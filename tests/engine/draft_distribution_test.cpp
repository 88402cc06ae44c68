// Tokens of drafts that were verified are distributed as the model says.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "base/hash.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/token_acceptor.h"

namespace kvasir::testing {
namespace {

// Verification itself, a million tokens of it: rows whose logits are known, with a draft that is right now and then.
// What comes of them is distributed as the logits say; the rule that takes every draft for right is caught.
class DistributionTest : public ::testing::Test {
 protected:
  static constexpr int kVocab = 8;
  static constexpr std::array<float, kVocab> kLogits{1.2F, 0.3F, -0.5F, 2.0F, 0.0F, -1.5F, 0.9F, -0.2F};
  static constexpr std::int64_t kDraws = 1000000;
  static constexpr double kLimit = 29.9;  // one in 10,000 with seven degrees of freedom

  static double chi_square(const std::array<std::int64_t, kVocab>& counts) {
    double sum = 0;
    for (const float logit : kLogits) sum += std::exp(static_cast<double>(logit));
    const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
    double out = 0;
    for (size_t t = 0; t < kVocab; ++t) {
      const double expected = all * std::exp(static_cast<double>(kLogits[t])) / sum;
      const double off = static_cast<double>(counts[t]) - expected;
      out += off * off / expected;
    }
    return out;
  }
};

TEST_F(DistributionTest, VerifiedTokensAreDrawnAsTheModelSays) {
  Scheduler scheduler{SchedulerConfig{}};
  EngineListeners listeners;
  MaskQueue masks(scheduler);
  TokenAcceptor acceptor(listeners, masks);
  Request request;
  request.prompt = {1};
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.max_tokens = 2 * kDraws;
  Sequence sequence(1, request, {});
  std::array<std::int64_t, kVocab> counts{};
  std::array<std::int64_t, kVocab> behind_a_right_one{};
  std::array<std::int64_t, kVocab> broken{};
  std::int64_t verified = 0;
  std::vector<float> logits;
  constexpr std::array<std::int32_t, 2> kChain{-1, 0};
  for (std::int64_t i = 0; std::ssize(sequence.tokens) < kDraws; ++i) {
    logits.clear();
    for (int row = 0; row < 3; ++row) logits.insert(logits.end(), kLogits.begin(), kLogits.end());
    const std::array<TokenId, 2> draft{static_cast<TokenId>(mix(3, static_cast<std::uint64_t>(i), 9) % 4),
                                       static_cast<TokenId>(mix(4, static_cast<std::uint64_t>(i), 9) % kVocab)};
    const StepOutput output = acceptor.accept(
        {.sequence = &sequence, .rows = 3, .draft = {draft, kChain}, .logits = logits, .logit_rows = 3});
    verified += output.verified();
    for (const TokenId token : output.tokens) ++counts[static_cast<size_t>(token)];
    if (output.tokens.size() > 1) ++behind_a_right_one[static_cast<size_t>(output.tokens[1])];
    ++broken[static_cast<size_t>(draft[0])];
    ++broken[static_cast<size_t>(output.tokens.back())];
  }
  EXPECT_GT(verified, kDraws / 10);
  EXPECT_LT(chi_square(counts), kLimit);
  EXPECT_LT(chi_square(behind_a_right_one), kLimit);
  EXPECT_GT(chi_square(broken), 100 * kLimit);
}

}  // namespace
}  // namespace kvasir::testing
