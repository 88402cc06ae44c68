// The draw itself: what it depends on, and how often each token comes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/error.h"
#include "sample/sampler.h"

namespace kvasir {
namespace {

using Logits = std::vector<float>;

const Logits kLogits{0.3F, -1.2F, 2.0F, 1.1F, 0.0F, -0.4F};

TokenId draw(Sampler& sampler, Position position, Logits logits = kLogits) {
  return sampler.sample(logits, position);
}

std::vector<TokenId> draws(std::uint64_t seed, Position count) {
  Sampler sampler({.temperature = 1.0F, .seed = seed}, {});
  std::vector<TokenId> out;
  for (Position position = 0; position < count; ++position) out.push_back(draw(sampler, position));
  return out;
}

TEST(Draw, DependsOnSeedAndPositionAndNotOnHistory) {
  const std::vector<TokenId> forward = draws(42, 200);
  Sampler sampler({.temperature = 1.0F, .seed = 42}, std::vector<TokenId>{1, 2, 3});
  for (Position position = 199; position >= 0; --position) {
    draw(sampler, position + 1000, {1, 2, 3});  // another vocabulary, another place
    sampler.accept(0);
    EXPECT_EQ(draw(sampler, position), forward[static_cast<size_t>(position)]);
    EXPECT_EQ(draw(sampler, position), forward[static_cast<size_t>(position)]);
  }
}

// The noise belongs to the token: leaving out a token that was not drawn does not change what is.
TEST(Draw, OfOneTokenDoesNotDependOnTheOthers) {
  for (Position position = 0; position < 200; ++position) {
    Sampler sampler({.temperature = 1.0F, .seed = 1}, {});
    const TokenId token = draw(sampler, position);
    for (size_t other = 0; other < kLogits.size(); ++other) {
      if (static_cast<TokenId>(other) == token) continue;
      Logits without = kLogits;
      without[other] = -INFINITY;
      EXPECT_EQ(draw(sampler, position, without), token);
    }
  }
}

// Vocabularies around a multiple of what is looked at side by side, the largest logit at every place.
TEST(Draw, WithoutNoiseIsTheFirstOfTheLargest) {
  for (const size_t vocabulary : {1, 15, 16, 17, 37}) {
    for (size_t place = 0; place < vocabulary; ++place) {
      Logits logits(vocabulary, -3.0F);
      std::fill(logits.begin() + static_cast<std::ptrdiff_t>(place), logits.end(), -1.0F);
      Sampler sampler({.temperature = 0.0F}, {});
      EXPECT_EQ(draw(sampler, 0, logits), static_cast<TokenId>(place)) << vocabulary;
    }
  }
}

TEST(Draw, RefusesLogitsThatAreNoNumbersWhereverTheyAre) {
  constexpr size_t kVocabulary = 37;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), infinity}) {
    for (size_t place = 0; place < kVocabulary; ++place) {
      Logits logits(kVocabulary, 1.0F);
      logits[place] = bad;
      Sampler sampler({.temperature = 0.0F}, {});
      EXPECT_THROW(draw(sampler, 0, logits), Error) << place;
    }
  }
  for (size_t place = 0; place < kVocabulary; ++place) {  // one that is allowed is enough
    Logits logits(kVocabulary, -infinity);
    EXPECT_THROW(check_logits(logits), Error);
    logits[place] = -5.0F;
    EXPECT_NO_THROW(check_logits(logits));
  }
}

TEST(Draw, OtherSeedsGiveOtherTexts) {
  EXPECT_EQ(draws(1, 100), draws(1, 100));
  EXPECT_NE(draws(1, 100), draws(2, 100));
  EXPECT_NE(draws(0, 100), draws(1ULL << 63, 100));
}

// Pearson's chi-square of `counts` against softmax(logits / temperature).
double chi_square(const std::map<TokenId, int>& counts, double temperature, int total) {
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(static_cast<double>(logit) / temperature);
  double chi = 0;
  for (size_t i = 0; i < kLogits.size(); ++i) {
    const double expected = total * std::exp(static_cast<double>(kLogits[i]) / temperature) / sum;
    const auto found = counts.find(static_cast<TokenId>(i));
    const double difference = (found == counts.end() ? 0 : found->second) - expected;
    chi += difference * difference / expected;
  }
  return chi;
}

constexpr int kDraws = 20'000;
constexpr double kBound = 25.7;  // five degrees of freedom: above it once in ten thousand

TEST(Draw, OverPositionsIsTheSoftmax) {
  for (const float temperature : {0.5F, 1.0F, 3.0F}) {
    for (const std::uint64_t seed : {0ULL, 1ULL, 123'456'789ULL}) {
      Sampler sampler({.temperature = temperature, .seed = seed}, {});
      std::map<TokenId, int> counts;
      for (Position position = 0; position < kDraws; ++position) ++counts[draw(sampler, position)];
      EXPECT_LT(chi_square(counts, static_cast<double>(temperature), kDraws), kBound) << temperature << " " << seed;
    }
  }
}

TEST(Draw, OverSeedsIsTheSoftmax) {
  std::map<TokenId, int> counts;
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    Sampler sampler({.temperature = 1.0F, .seed = seed}, {});
    ++counts[draw(sampler, 17)];
  }
  EXPECT_LT(chi_square(counts, 1.0, kDraws), kBound);
}

// Neighbouring positions are independent: pairs of draws are as frequent as the product says.
TEST(Draw, AtNeighbouringPositionsIsIndependent) {
  const Logits even{0, 0, 0};
  Sampler sampler({.temperature = 1.0F, .seed = 5}, {});
  std::map<std::pair<TokenId, TokenId>, int> pairs;
  for (Position position = 0; position < 9000; ++position) {
    ++pairs[{draw(sampler, 2 * position, even), draw(sampler, 2 * position + 1, even)}];
  }
  double chi = 0;
  for (TokenId a = 0; a < 3; ++a) {
    for (TokenId b = 0; b < 3; ++b) chi += std::pow(pairs[{a, b}] - 1000.0, 2) / 1000.0;
  }
  EXPECT_LT(chi, 31.8);  // eight degrees of freedom: above it once in ten thousand
}

}  // namespace
}  // namespace kvasir
