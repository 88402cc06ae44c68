#include "engine/step/token_evictor.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace kvasir {
namespace {

using Method = TokenEviction::Method;

// Each score becomes the mean of its own and its neighbours', by position; behind the ends there is nothing.
void pool(std::span<float> scores) {
  const std::vector<float> own(scores.begin(), scores.end());
  constexpr std::int64_t kSide = EvictionRule::kSnapPool / 2;
  const std::int64_t count = std::ssize(own);
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (std::int64_t j = std::max<std::int64_t>(i - kSide, 0); j <= std::min(i + kSide, count - 1); ++j) {
      sum += own[static_cast<size_t>(j)];
    }
    scores[static_cast<size_t>(i)] = sum / static_cast<float>(EvictionRule::kSnapPool);
  }
}

}  // namespace

bool EvictionRule::is_point(Position length) const { return length >= prompt && (length - prompt) % kInterval == 0; }

Position EvictionRule::next_point(Position length) const {
  if (length < prompt) return prompt;
  return prompt + ((length - prompt) / kInterval + 1) * kInterval;
}

std::int64_t EvictionRule::budget() const {
  const std::int64_t rows = how.tokens > 0 ? how.tokens : (prompt * how.percent + 99) / 100;
  return std::max(rows, sinks + 1);
}

std::int64_t EvictionRule::recent(std::int64_t budget) const {
  std::int64_t rows = 0;
  if (how.method == Method::kFifo) rows = budget;
  if (how.method == Method::kH2o) rows = budget / 2;
  if (how.method == Method::kSnapKv) rows = std::min(kSnapWindow, budget / 2);
  return rows;
}

std::int64_t EvictionRule::layer_budget(int layer, int layers) const {
  const std::int64_t mean = budget();
  if (how.budgets == TokenEviction::Budgets::kUniform || layers == 1 || prompt <= mean) return mean;
  // What all layers keep alike is not shared out.
  const std::int64_t base = std::min(mean - 1, std::max(sinks, std::min(kSnapWindow, mean / 2)));
  std::int64_t least = (mean - base) / kPyramidSlope;
  std::int64_t most = 2 * (mean - base) - least;
  if (most > prompt - base) {  // a layer cannot keep more than there is
    most = prompt - base;
    least = 2 * (mean - base) - most;
  }
  return base + most - (most - least) * layer / (layers - 1);
}

Position EvictionRule::watched_from(Position position) const {
  const Position point = next_point(position);
  switch (how.method) {
    case Method::kH2o:
    case Method::kLru:
      return position;
    case Method::kTova:
      return std::max(position, point - 1);
    case Method::kSnapKv:
      return std::max(position, point - kSnapWindow);
    case Method::kFifo:
    case Method::kNone:
      break;
  }
  return point;
}

std::int64_t EvictionRule::most_rows(Position longest) const {
  const std::int64_t shares = how.heads == TokenEviction::Heads::kAdaptive ? kMostShares : 1;
  return std::min(longest, std::max(prompt, shares * layer_budget(0, 2) + kInterval));
}

namespace {

// What always stays of a head, and the others, the best first.
struct Ranking {
  std::vector<std::int32_t> staying;
  std::vector<std::int32_t> others;
  std::vector<float> scores;  // of the others
};

Ranking ranked(const EvictionRule& rule, const HeadRows& rows, const RowQuota& quota) {
  const std::int64_t count = std::ssize(rows.positions);
  const std::int64_t keep = std::min(quota.keep, count);
  CHECK(rows.scores.size() == rows.positions.size());
  const auto position = [&](std::int32_t row) { return rows.positions[static_cast<size_t>(row)]; };
  std::vector<std::int32_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, position);
  const auto first = std::min(std::ranges::count_if(rows.positions, [&](Position p) { return p < rule.sinks; }),
                              static_cast<std::ptrdiff_t>(keep));
  const std::int64_t newest = std::min(quota.recent, keep - first);
  Ranking out;
  out.staying.assign(order.begin(), order.begin() + first);
  out.staying.insert(out.staying.end(), order.end() - newest, order.end());

  const std::span<std::int32_t> others(order.begin() + first, order.end() - newest);
  std::vector<float> scores;
  for (const std::int32_t row : others) {
    const float score = rows.scores[static_cast<size_t>(row)];
    scores.push_back(score == score ? score : 0.0F);  // what is no number has no place in an order
  }
  if (rule.how.method == Method::kSnapKv) pool(scores);
  std::vector<std::int32_t> best(others.size());
  std::iota(best.begin(), best.end(), 0);
  std::ranges::sort(best, [&](std::int32_t a, std::int32_t b) {
    const float of_a = scores[static_cast<size_t>(a)];
    const float of_b = scores[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a > b;
  });
  for (const std::int32_t i : best) {
    out.others.push_back(others[static_cast<size_t>(i)]);
    out.scores.push_back(scores[static_cast<size_t>(i)]);
  }
  return out;
}

}  // namespace

std::vector<std::int32_t> rows_to_keep(const EvictionRule& rule, const HeadRows& rows, const RowQuota& quota) {
  CHECK(quota.keep >= 0 && quota.keep <= std::ssize(rows.positions));
  Ranking ranking = ranked(rule, rows, quota);
  std::vector<std::int32_t>& kept = ranking.staying;
  kept.insert(kept.end(), ranking.others.begin(), ranking.others.begin() + (quota.keep - std::ssize(kept)));
  std::ranges::sort(kept);
  return kept;
}

std::vector<std::int64_t> head_budgets(const EvictionRule& rule, std::span<const HeadRows> heads,
                                       std::int64_t budget) {
  const std::int64_t recent = rule.recent(budget);
  std::vector<std::int64_t> out;
  std::vector<Ranking> rankings;
  std::int64_t left = budget * std::ssize(heads);
  for (const HeadRows& head : heads) {
    rankings.push_back(ranked(rule, head, {budget, recent}));
    const std::int64_t least = (budget * EvictionRule::kLeastOfFive + 4) / 5;
    out.push_back(std::min(std::ssize(head.positions), std::max(least, std::ssize(rankings.back().staying))));
    left -= out.back();
  }
  // One row after the other goes to the head whose next one has the highest score; of equals to the first.
  for (; left > 0; --left) {
    std::int64_t best = -1;
    float highest = 0;
    for (size_t head = 0; head < heads.size(); ++head) {
      const auto next = static_cast<size_t>(out[head] - std::ssize(rankings[head].staying));
      if (next >= rankings[head].scores.size() || out[head] >= EvictionRule::kMostShares * budget) continue;
      if (best >= 0 && rankings[head].scores[next] <= highest) continue;
      best = static_cast<std::int64_t>(head);
      highest = rankings[head].scores[next];
    }
    if (best < 0) break;  // all heads keep all that they have, or may
    ++out[static_cast<size_t>(best)];
  }
  return out;
}

std::vector<RowMove> moves_to_front(std::span<const std::int32_t> kept, int head) {
  std::vector<RowMove> moves;
  const auto count = static_cast<std::int32_t>(kept.size());
  auto behind = std::ranges::lower_bound(kept, count);  // those from here on are beyond the first places
  auto staying = kept.begin();
  for (std::int32_t place = 0; place < count; ++place) {
    if (staying != kept.end() && *staying == place) {
      ++staying;
    } else {
      moves.push_back({head, *behind++, place});
    }
  }
  return moves;
}

}  // namespace kvasir
