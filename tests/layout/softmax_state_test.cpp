#include "layout/softmax_state.h"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

namespace kvasir {
namespace {

// A partial sum with one number for o.
struct Partial {
  SoftmaxState state;
  float o = 0;
};

struct Keys {
  std::vector<float> scores;
  std::vector<float> values;
};

Keys random_keys(size_t count, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Keys keys;
  for (size_t i = 0; i < count; ++i) {
    keys.scores.push_back(spread * normal(random));
    keys.values.push_back(normal(random));
  }
  return keys;
}

Partial partial(const Keys& keys, size_t first, size_t last) {
  Partial out;
  for (size_t i = first; i < last; ++i) out.state.m = std::max(out.state.m, keys.scores[i]);
  for (size_t i = first; i < last; ++i) {
    const float weight = std::exp(keys.scores[i] - out.state.m);
    out.state.d += weight;
    out.o += weight * keys.values[i];
  }
  return out;
}

Partial merged(const Partial& a, const Partial& b) {
  const SoftmaxMerge both = merge(a.state, b.state);
  return {both.state, a.o * both.first_scale + b.o * both.second_scale};
}

double exact(const Keys& keys) {
  double top = -INFINITY;
  for (const float score : keys.scores) top = std::max(top, static_cast<double>(score));
  double sum = 0;
  double weighted = 0;
  for (size_t i = 0; i < keys.scores.size(); ++i) {
    const double weight = std::exp(static_cast<double>(keys.scores[i]) - top);
    sum += weight;
    weighted += weight * static_cast<double>(keys.values[i]);
  }
  return weighted / sum;
}

TEST(SoftmaxState, SplitsMergeIntoTheWhole) {
  for (const float spread : {0.1F, 1.0F, 10.0F, 50.0F}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const Keys keys = random_keys(200, seed, spread);
      for (const size_t split : {1U, 7U, 16U, 64U, 200U}) {
        Partial all;
        for (size_t first = 0; first < 200; first += split) {
          all = merged(all, partial(keys, first, std::min<size_t>(200, first + split)));
        }
        EXPECT_NEAR(static_cast<double>(all.o / all.state.d), exact(keys), 1e-5) << spread << " " << split;
      }
    }
  }
}

TEST(SoftmaxState, AnEmptyHalfChangesNothing) {
  const Partial some{{2.5F, 3.0F}, 7.0F};
  for (const Partial& both : {merged(some, {}), merged({}, some)}) {
    EXPECT_EQ(both.state.m, 2.5F);
    EXPECT_EQ(both.state.d, 3.0F);
    EXPECT_EQ(both.o, 7.0F);
  }
}

TEST(SoftmaxState, TwoEmptyHalvesAreEmptyAndNoNan) {
  const SoftmaxMerge both = merge({}, {});
  EXPECT_TRUE(both.state.empty());
  EXPECT_EQ(both.state.m, -INFINITY);
  EXPECT_EQ(both.first_scale, 0.0F);
  EXPECT_EQ(both.second_scale, 0.0F);
}

TEST(SoftmaxState, AScoreFarBelowVanishesWithoutHarm) {
  const SoftmaxMerge both = merge({1000.0F, 1.0F}, {-1000.0F, 1.0F});
  EXPECT_EQ(both.state.m, 1000.0F);
  EXPECT_EQ(both.state.d, 1.0F);
  EXPECT_EQ(both.first_scale, 1.0F);
  EXPECT_EQ(both.second_scale, 0.0F);
}

}  // namespace
}  // namespace kvasir
