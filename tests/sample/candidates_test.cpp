// Which tokens may be drawn: greedy, top-k, top-p and min-p, against a brute-force reading of their
// definitions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "sample/sampler.h"

namespace kvasir {
namespace {

using Logits = std::vector<float>;

// The tokens drawn at some of many positions. Logits below are so close that each one kept is surely drawn.
std::set<TokenId> drawn(const SamplingParams& params, const Logits& logits) {
  Sampler sampler(params, {});
  std::set<TokenId> tokens;
  for (Position position = 0; position < 4000; ++position) {
    Logits copy = logits;
    tokens.insert(sampler.sample(copy, position));
  }
  return tokens;
}

Logits random_logits(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Logits logits(count);
  for (float& logit : logits) logit = static_cast<float>(random() % 3000) / 1000.0F - 1.5F;
  return logits;
}

// What is left, by the definitions: min-p and top-k of all tokens, then the likeliest of those that reach
// top-p.
std::set<TokenId> expected(const SamplingParams& params, const Logits& logits) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](TokenId a, TokenId b) { return logits[size_t(a)] > logits[size_t(b)]; });
  const auto likelihood = [&](TokenId token) {
    return std::exp((double(logits[size_t(token)]) - double(logits[size_t(order[0])])) / double(params.temperature));
  };
  if (params.top_k > 0 && size_t(params.top_k) < order.size()) order.resize(size_t(params.top_k));
  std::erase_if(order, [&](TokenId token) { return likelihood(token) < double(params.min_p); });
  double all = 0;
  for (const TokenId token : order) all += likelihood(token);
  std::set<TokenId> kept;
  double reached = 0;
  for (const TokenId token : order) {
    if (!kept.empty() && reached >= double(params.top_p) * all) break;
    kept.insert(token);
    reached += likelihood(token);
  }
  return kept;
}

TEST(Greedy, TakesTheLargestAndOfEqualsTheLowestId) {
  Sampler sampler({.temperature = 0.0F}, {});
  for (const auto& [logits, token] : std::vector<std::pair<Logits, TokenId>>{
           {{1, 3, 2}, 1}, {{3, 1, 3, 3}, 0}, {{-5, -2, -2}, 1}, {{0}, 0}, {{-INFINITY, -INFINITY, 1}, 2}}) {
    for (Position position = 0; position < 5; ++position) {
      Logits copy = logits;
      EXPECT_EQ(sampler.sample(copy, position), token);
    }
  }
}

TEST(Greedy, IgnoresSeedTopKAndTopP) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Sampler sampler({.temperature = 0.0F, .top_k = 3, .top_p = 0.5F, .min_p = 0.1F, .seed = seed}, {});
    Logits logits{0.1F, 0.3F, 0.2F};
    EXPECT_EQ(sampler.sample(logits, 7), 1);
  }
}

TEST(Candidates, WithoutLimitsAreAllTokens) {
  EXPECT_EQ(drawn({.temperature = 1.0F}, random_logits(10, 1)).size(), 10U);
}

TEST(Candidates, OfTopKAreTheKLikeliest) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const Logits logits = random_logits(10, seed);
    for (const int k : {1, 2, 5, 9, 10, 11, 1000}) {
      const SamplingParams params{.temperature = 1.0F, .top_k = k};
      EXPECT_EQ(drawn(params, logits), expected(params, logits)) << k;
    }
  }
}

TEST(Candidates, OfTopKTiesGoToTheLowerId) {
  EXPECT_EQ(drawn({.temperature = 1.0F, .top_k = 2}, {0, 1, 1, 1, 0}), (std::set<TokenId>{1, 2}));
  EXPECT_EQ(drawn({.temperature = 1.0F, .top_k = 3}, {0, 0, 1, 0, 0}), (std::set<TokenId>{0, 1, 2}));
}

TEST(Candidates, OfTopPAreTheFewestThatReachP) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const Logits logits = random_logits(10, seed);
    for (const float p : {0.0F, 0.05F, 0.3F, 0.5F, 0.77F, 0.95F, 0.999F, 1.0F}) {
      for (const float temperature : {0.7F, 1.0F, 2.0F}) {
        const SamplingParams params{.temperature = temperature, .top_p = p};
        EXPECT_EQ(drawn(params, logits), expected(params, logits)) << p;
      }
    }
  }
}

// Half the mass is reached by exactly half of equal tokens, and by those with the lower ids.
TEST(Candidates, OfTopPStopAtTheTokenThatReachesP) {
  EXPECT_EQ(drawn({.temperature = 1.0F, .top_p = 0.5F}, {0, 0, 0, 0}), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(drawn({.temperature = 1.0F, .top_p = 0.51F}, {0, 0, 0, 0}), (std::set<TokenId>{0, 1, 2}));
}

TEST(Candidates, OfMinPAreThoseLikelyEnough) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const Logits logits = random_logits(10, seed);
    for (const float p : {0.01F, 0.1F, 0.33F, 0.8F}) {
      for (const float temperature : {0.7F, 1.0F, 2.0F}) {
        const SamplingParams params{.temperature = temperature, .min_p = p};
        EXPECT_EQ(drawn(params, logits), expected(params, logits)) << p;
      }
    }
  }
  EXPECT_EQ(drawn({.temperature = 1.0F, .min_p = 1.0F}, {0, 1, 1}), (std::set<TokenId>{1, 2}));
}

TEST(Candidates, OfAllLimitsTogether) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Logits logits = random_logits(12, seed);
    const SamplingParams params{.temperature = 0.9F, .top_k = 2 + int(seed % 9), .top_p = 0.8F, .min_p = 0.15F};
    EXPECT_EQ(drawn(params, logits), expected(params, logits)) << seed;
  }
}

TEST(Candidates, ForbiddenTokensAreNeverDrawn) {
  EXPECT_EQ(drawn({.temperature = 1.0F}, {0, -INFINITY, 0, -INFINITY}), (std::set<TokenId>{0, 2}));
  EXPECT_EQ(drawn({.temperature = 5.0F, .top_p = 0.99F}, {-INFINITY, 0, -INFINITY}), (std::set<TokenId>{1}));
}

}  // namespace
}  // namespace kvasir
