#include "backend/router.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace kvasir {
namespace {

void softmax(std::span<float> values) {
  const float top = *std::ranges::max_element(values);
  float sum = 0;
  for (float& value : values) sum += value = std::exp(value - top);
  for (float& value : values) value /= sum;
}

std::vector<float> scores_of(std::span<const float> logits, RouterRule::Score score) {
  std::vector<float> out(logits.begin(), logits.end());
  if (score == RouterRule::Score::kSoftmax) softmax(out);
  if (score == RouterRule::Score::kSigmoid) {
    for (float& value : out) value = 1.0F / (1.0F + std::exp(-value));
  }
  return out;
}

void normalize(std::span<RoutedExpert> chosen) {
  constexpr float kAboveZero = 1e-20F;  // sigmoids may all be nothing
  float sum = kAboveZero;
  for (const RoutedExpert& one : chosen) sum += one.weight;
  for (RoutedExpert& one : chosen) one.weight /= sum;
}

// What those of the best groups are ranked by; the others are out of the question.
void leave_out_groups(const RouterRule& rule, std::vector<float>& ranked) {
  const size_t size = ranked.size() / static_cast<size_t>(rule.groups);
  std::vector<float> best;
  for (size_t first = 0; first < ranked.size(); first += size) {
    std::vector<float> own(ranked.begin() + static_cast<std::ptrdiff_t>(first),
                           ranked.begin() + static_cast<std::ptrdiff_t>(first + size));
    const size_t top = rule.group_score == RouterRule::GroupScore::kTopTwo ? std::min<size_t>(2, size) : 1;
    std::ranges::partial_sort(own, own.begin() + static_cast<std::ptrdiff_t>(top), std::greater<>());
    best.push_back(top == 2 ? own[0] + own[1] : own[0]);
  }
  std::vector<size_t> order(best.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&best](size_t a, size_t b) { return best[a] > best[b]; });
  for (size_t i = static_cast<size_t>(rule.used_groups); i < order.size(); ++i) {
    std::fill_n(ranked.begin() + static_cast<std::ptrdiff_t>(order[i] * size), size,
                -std::numeric_limits<float>::infinity());
  }
}

}  // namespace

void route(std::span<const float> logits, const RouterRule& rule, std::span<RoutedExpert> chosen) {
  CHECK(std::ssize(chosen) == rule.used && chosen.size() <= logits.size());
  const std::vector<float> scores = scores_of(logits, rule.score);
  std::vector<float> ranked = scores;
  if (rule.choice_bias != nullptr) {
    for (size_t i = 0; i < ranked.size(); ++i) ranked[i] += rule.choice_bias[i];
  }
  if (rule.groups > 1) leave_out_groups(rule, ranked);
  std::vector<int> order(ranked.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  // Numbers that are none would have no order: they come last, and the sequence fails at its logits.
  const auto before = [&ranked](int a, int b) {
    const float left = ranked[static_cast<size_t>(a)];
    const float right = ranked[static_cast<size_t>(b)];
    if (std::isnan(left) || std::isnan(right)) return !std::isnan(left) || (std::isnan(right) && a < b);
    return left > right || (left == right && a < b);
  };
  std::ranges::partial_sort(order, order.begin() + rule.used, before);
  std::vector<float> weights;
  for (size_t i = 0; i < chosen.size(); ++i) weights.push_back(scores[static_cast<size_t>(order[i])]);
  if (rule.score == RouterRule::Score::kSoftmaxOfChosen) softmax(weights);
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = {order[i], weights[i]};
  if (rule.normalized) normalize(chosen);
  for (RoutedExpert& one : chosen) {
    one.weight *= rule.scale;
    if (rule.expert_scale != nullptr) one.weight *= rule.expert_scale[one.expert];
  }
}

}  // namespace kvasir
