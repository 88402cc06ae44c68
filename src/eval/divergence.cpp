#include "eval/divergence.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "base/error.h"
#include "sample/sampler.h"

namespace kvasir {
namespace {

double log_sum_exp(std::span<const float> logits, double top) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
  return top + std::log(sum);
}

size_t top_of(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

double surprise(std::span<const float> logits, TokenId token) {
  check_logits(logits);
  return log_sum_exp(logits, logits[top_of(logits)]) - static_cast<double>(logits[static_cast<size_t>(token)]);
}

// KL = Σ p (log p - log q) = Σ p (a - b) - (log Σ e^a - log Σ e^b), with a and b the logits: where they are equal
// both parts are 0, not two large numbers that nearly cancel.
RowComparison compare_rows(std::span<const float> reference, std::span<const float> judged, TokenId token) {
  CHECK(reference.size() == judged.size());
  check_logits(reference);
  check_logits(judged);
  const size_t reference_top = top_of(reference);
  const size_t judged_top = top_of(judged);
  const double reference_log = log_sum_exp(reference, reference[reference_top]);
  const double judged_log = log_sum_exp(judged, judged[judged_top]);
  double apart = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double p = std::exp(static_cast<double>(reference[i]) - reference_log);
    if (p > 0) apart += p * (static_cast<double>(reference[i]) - static_cast<double>(judged[i]));
  }
  RowComparison out;
  out.surprise = judged_log - static_cast<double>(judged[static_cast<size_t>(token)]);
  out.kl = std::max(0.0, apart - (reference_log - judged_log));  // rounding may leave -1e-16 of a zero
  if (!std::isfinite(out.kl) || !std::isfinite(out.surprise)) {
    fail_input("a token is impossible in one of two distributions that are compared", "eval",
               "the model's weights, or a cache format too narrow for it, overflow");
  }
  out.same_top = reference_top == judged_top;
  return out;
}

void QualitySums::add(const RowComparison& row) {
  ++rows;
  surprise += row.surprise;
  kl += row.kl;
  same_top += row.same_top ? 1 : 0;
  largest.push_back(row.kl);
  std::ranges::push_heap(largest, std::greater<>{});
  if (static_cast<std::int64_t>(largest.size()) > rows_expected / 100 + 1) {
    std::ranges::pop_heap(largest, std::greater<>{});
    largest.pop_back();
  }
}

double QualitySums::perplexity() const { return rows == 0 ? 1 : std::exp(surprise / static_cast<double>(rows)); }

double QualitySums::mean_kl() const { return rows == 0 ? 0 : kl / static_cast<double>(rows); }

double QualitySums::kl_99() const {
  if (rows == 0) return 0;
  std::vector<double> falling = largest;
  std::ranges::sort(falling, std::greater<>{});
  return falling[static_cast<size_t>(std::min(rows, rows_expected) / 100)];
}

double QualitySums::most_kl() const { return largest.empty() ? 0 : std::ranges::max(largest); }

double QualitySums::top_agreement() const {
  return rows == 0 ? 1 : static_cast<double>(same_top) / static_cast<double>(rows);
}

}  // namespace kvasir
