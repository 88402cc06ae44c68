// Which rows stay, against what each method says of itself, and where they go.
#include "engine/step/token_evictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/hash.h"

namespace kvasir {
namespace {

using Method = TokenEviction::Method;

EvictionRule rule_of(Method method, std::int64_t budget, std::int64_t sinks = 0, Position prompt = 100) {
  EvictionRule rule;
  rule.how.method = method;
  rule.how.tokens = budget;
  rule.sinks = sinks;
  rule.prompt = prompt;
  return rule;
}

// Rows in any order, with scores of their own.
struct Rows {
  std::vector<Position> positions;
  std::vector<float> scores;

  Rows(std::int64_t count, std::uint64_t seed) {
    for (std::int64_t i = 0; i < count; ++i) positions.push_back(3 * i + 1);
    for (size_t i = positions.size(); i > 1; --i) std::swap(positions[i - 1], positions[mix(seed, i, 0) % i]);
    for (size_t i = 0; i < positions.size(); ++i) scores.push_back(static_cast<float>(mix(seed, i, 1) % 1000));
  }

  std::set<Position> kept_by(const EvictionRule& rule, std::int64_t keep) const {
    const std::vector<std::int32_t> kept = rows_to_keep(rule, {positions, scores}, {keep, rule.recent(keep)});
    EXPECT_TRUE(std::ranges::is_sorted(kept));
    EXPECT_EQ(std::ssize(kept), keep);
    std::set<Position> out;
    for (const std::int32_t row : kept) out.insert(positions[static_cast<size_t>(row)]);
    EXPECT_EQ(std::ssize(out), keep);
    return out;
  }
  // Ascending by position.
  std::vector<std::pair<Position, float>> in_order() const {
    std::vector<std::pair<Position, float>> out;
    for (size_t i = 0; i < positions.size(); ++i) out.emplace_back(positions[i], scores[i]);
    std::ranges::sort(out);
    return out;
  }
};

// The `count` best of these, the newer of equals.
std::set<Position> best(std::vector<std::pair<Position, float>> rows, std::int64_t count) {
  std::ranges::stable_sort(rows, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first > b.first;
  });
  std::set<Position> out;
  for (std::int64_t i = 0; i < count; ++i) out.insert(rows[static_cast<size_t>(i)].first);
  return out;
}

TEST(EvictionRule, PointsAreTheEndOfThePromptAndEverySixteenthTokenBehindIt) {
  const EvictionRule rule = rule_of(Method::kFifo, 10, 0, 37);
  Position next = 37;
  for (Position length = 0; length < 120; ++length) {
    if (length == next) next += 16;
    EXPECT_EQ(rule.next_point(length), next) << length;
    EXPECT_EQ(rule.is_point(length),
              length == 37 || length == 53 || length == 69 || length == 85 || length == 101 || length == 117)
        << length;
  }
}

TEST(EvictionRule, ABudgetIsTokensOrAShareOfThePrompt) {
  EvictionRule rule = rule_of(Method::kH2o, 64);
  EXPECT_EQ(rule.budget(), 64);
  rule.how.tokens = 0;
  rule.how.percent = 25;
  EXPECT_EQ(rule.budget(), 25);
  rule.prompt = 101;
  EXPECT_EQ(rule.budget(), 26);  // never less than asked for
  rule.prompt = 2;
  rule.sinks = 4;
  EXPECT_EQ(rule.budget(), 5);
}

TEST(EvictionRule, EachMethodWatchesWhatItNeeds) {
  const auto watched = [](Method method, Position from) { return rule_of(method, 80).watched_from(from); };
  EXPECT_EQ(watched(Method::kFifo, 3), 100);
  EXPECT_EQ(watched(Method::kH2o, 3), 3);
  EXPECT_EQ(watched(Method::kLru, 3), 3);
  EXPECT_EQ(watched(Method::kTova, 3), 99);
  EXPECT_EQ(watched(Method::kTova, 100), 115);
  EXPECT_EQ(watched(Method::kSnapKv, 3), 68);
  EXPECT_EQ(watched(Method::kSnapKv, 80), 80);
  EXPECT_EQ(watched(Method::kSnapKv, 100), 100);  // sixteen tokens are all there are
}

TEST(EvictionRule, NobodyHoldsMoreThanItsPromptOrItsBudgetAndAnInterval) {
  for (const std::int64_t budget : {10, 90, 130}) {
    const EvictionRule rule = rule_of(Method::kFifo, budget);
    std::int64_t rows = 0;
    std::int64_t most = 0;
    for (Position length = 1; length <= 300; ++length) {
      most = std::max(most, ++rows);
      if (rule.is_point(length)) rows = std::min(rows, budget);
    }
    EXPECT_LE(most, rule.most_rows(300)) << budget;
    EXPECT_LE(rule.most_rows(300), most + 16) << budget;
    EXPECT_EQ(rule.most_rows(50), 50);
  }
}

TEST(EvictionRule, APyramidHasTheSameSumAndFallsFromLayerToLayer) {
  for (const Position prompt : {150, 2000}) {
    EvictionRule rule = rule_of(Method::kSnapKv, 128, 4, prompt);
    rule.how.budgets = TokenEviction::Budgets::kPyramid;
    std::int64_t sum = 0;
    for (int layer = 0; layer < 10; ++layer) {
      sum += rule.layer_budget(layer, 10);
      EXPECT_LE(rule.layer_budget(layer, 10), prompt);
      EXPECT_GT(rule.layer_budget(layer, 10), rule.sinks);
      if (layer > 0) {
        EXPECT_LT(rule.layer_budget(layer, 10), rule.layer_budget(layer - 1, 10)) << prompt;
      }
    }
    EXPECT_NEAR(static_cast<double>(sum), 1280, 10) << prompt;
  }
  EvictionRule rule = rule_of(Method::kSnapKv, 128, 0, 2000);
  rule.how.budgets = TokenEviction::Budgets::kPyramid;
  EXPECT_EQ(rule.layer_budget(9, 10), 32 + (128 - 32) / 20);
  EXPECT_EQ(rule.layer_budget(0, 10), 32 + 2 * 96 - 96 / 20);
}

TEST(TokenEvictor, FifoKeepsTheNewestAndTheSinks) {
  const Rows rows(50, 1);
  std::set<Position> newest;
  for (std::int64_t i = 30; i < 50; ++i) newest.insert(3 * i + 1);
  EXPECT_EQ(rows.kept_by(rule_of(Method::kFifo, 20), 20), newest);
  newest.erase(newest.begin(), std::next(newest.begin(), 2));
  newest.insert({1, 4});
  EXPECT_EQ(rows.kept_by(rule_of(Method::kFifo, 20, 5), 20), newest);  // of the first five tokens two are left
}

TEST(TokenEvictor, LruAndTovaKeepTheHighestScores) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Rows rows(60, seed);
    for (const Method method : {Method::kLru, Method::kTova}) {
      EXPECT_EQ(rows.kept_by(rule_of(method, 17), 17), best(rows.in_order(), 17));
    }
  }
}

TEST(TokenEvictor, H2oKeepsTheNewestHalfAndTheHighestOfTheRest) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Rows rows(60, seed);
    auto all = rows.in_order();
    std::set<Position> expected = best({all.begin() + 2, all.end() - 10}, 8);
    for (auto row = all.end() - 10; row != all.end(); ++row) expected.insert(row->first);
    expected.insert({all[0].first, all[1].first});
    EXPECT_EQ(rows.kept_by(rule_of(Method::kH2o, 20, 5), 20), expected);
  }
}

TEST(TokenEvictor, SnapKvPoolsBeforeItChooses) {
  Rows rows(60, 3);
  std::ranges::fill(rows.scores, 0.0F);
  const auto score = [&](Position position) -> float& {
    return rows.scores[static_cast<size_t>(std::ranges::find(rows.positions, position) - rows.positions.begin())];
  };
  score(3 * 20 + 1) = 1.0F;  // its two neighbours on each side stay with it, though nobody looked at them
  std::set<Position> expected;
  for (std::int64_t i = 18; i <= 22; ++i) expected.insert(3 * i + 1);
  for (std::int64_t i = 55; i < 60; ++i) expected.insert(3 * i + 1);
  EXPECT_EQ(rows.kept_by(rule_of(Method::kSnapKv, 10), 10), expected);
}

TEST(TokenEvictor, OfEqualsTheNewerStays) {
  Rows rows(30, 4);
  std::ranges::fill(rows.scores, 0.5F);
  std::set<Position> newest;
  for (std::int64_t i = 23; i < 30; ++i) newest.insert(3 * i + 1);
  for (const Method method : {Method::kLru, Method::kTova, Method::kH2o}) {
    EXPECT_EQ(rows.kept_by(rule_of(method, 7), 7), newest);
  }
}

TEST(TokenEvictor, ScoresThatAreNoNumbersComeLast) {
  Rows rows(30, 4);
  rows.scores.assign(30, std::numeric_limits<float>::quiet_NaN());
  rows.scores[7] = 0.5F;
  EXPECT_TRUE(rows.kept_by(rule_of(Method::kTova, 3), 3).contains(rows.positions[7]));
}

TEST(TokenEvictor, HeadsShareTheirBudgetByTheHighestScoresOfAll) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const Method method : {Method::kLru, Method::kH2o, Method::kSnapKv}) {
      std::vector<Rows> rows{{60, seed}, {60, seed + 100}, {60, seed + 200}};
      for (float& score : rows[1].scores) score *= 1.6F;   // the second head's are higher …
      for (float& score : rows[2].scores) score *= 0.01F;  // … and of the third all but its least share go
      std::vector<HeadRows> heads;
      for (const Rows& head : rows) heads.push_back({head.positions, head.scores});
      const EvictionRule rule = rule_of(method, 20);
      const std::vector<std::int64_t> budgets = head_budgets(rule, heads, 20);
      EXPECT_EQ(std::accumulate(budgets.begin(), budgets.end(), std::int64_t{0}), 60);
      EXPECT_GT(budgets[1], budgets[0]);
      EXPECT_EQ(budgets[2], std::max<std::int64_t>(rule.recent(20), 4));
      EXPECT_LE(budgets[1], 40);
      if (method != Method::kLru) continue;
      // No row that went has a higher score than one of another head that stayed beyond its least share.
      float lowest = 1e9F;
      float highest = 0;
      for (size_t i = 0; i < 2; ++i) {
        const auto kept = rows_to_keep(rule, heads[i], {budgets[i], rule.recent(20)});
        for (std::int32_t row = 0; row < 60; ++row) {
          const float score = rows[i].scores[static_cast<size_t>(row)];
          if (std::ranges::binary_search(kept, row)) {
            lowest = std::min(lowest, score);
          } else if (budgets[i] < 40) {
            highest = std::max(highest, score);
          }
        }
      }
      EXPECT_GE(lowest, highest);
    }
  }
}

TEST(TokenEvictor, NoHeadGetsMoreThanItHasOrTwiceAnEqualShare) {
  const Rows few(5, 1);
  Rows many(80, 2);
  for (float& score : many.scores) score += 5000;
  const std::vector<HeadRows> heads{{few.positions, few.scores}, {many.positions, many.scores}};
  EXPECT_EQ(head_budgets(rule_of(Method::kLru, 10), heads, 10), (std::vector<std::int64_t>{2, 18}));
  EXPECT_EQ(head_budgets(rule_of(Method::kLru, 40), heads, 40), (std::vector<std::int64_t>{5, 75}));
  Rows more(80, 3);
  const std::vector<HeadRows> three{
      {many.positions, many.scores}, {more.positions, more.scores}, {more.positions, more.scores}};
  EXPECT_EQ(head_budgets(rule_of(Method::kLru, 10), three, 10).front(), 20);
}

TEST(TokenEvictor, MovesFillTheGapsAndNothingElse) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto rows = static_cast<std::int32_t>(1 + mix(seed, 0, 2) % 40);
    std::vector<std::int32_t> kept;
    for (std::int32_t row = 0; row < rows; ++row) {
      if (mix(seed, static_cast<std::uint64_t>(row), 3) % 2 == 0) kept.push_back(row);
    }
    std::vector<std::int32_t> places(static_cast<size_t>(rows));
    std::iota(places.begin(), places.end(), 0);
    const std::vector<RowMove> moves = moves_to_front(kept, 5);
    for (const RowMove& move : moves) {
      EXPECT_EQ(move.head, 5);
      EXPECT_GE(move.from, std::ssize(kept));
      places[static_cast<size_t>(move.to)] = places[static_cast<size_t>(move.from)];
    }
    places.resize(kept.size());
    std::ranges::sort(places);
    EXPECT_EQ(places, kept);
    EXPECT_EQ(std::ssize(moves), std::ranges::count_if(kept, [&](auto row) { return row >= std::ssize(kept); }));
  }
}

}  // namespace
}  // namespace kvasir
