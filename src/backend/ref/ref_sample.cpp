#include "backend/ref/ref_sample.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace kvasir {
namespace {

struct Candidate {
  float logit;  // divided by the temperature
  TokenId token;
};

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Those that together reach top_p of what all have.
void keep_likeliest_mass(std::vector<Candidate>& sorted, float top_p) {
  if (top_p >= 1.0F) return;
  const auto weight = [&](const Candidate& one) { return likelihood(one.logit, sorted.front().logit); };
  std::uint64_t sum = 0;
  for (const Candidate& one : sorted) sum += weight(one);
  const double enough = static_cast<double>(top_p) * static_cast<double>(sum);
  std::uint64_t reached = 0;
  size_t keep = 0;
  while (keep < sorted.size() && (keep == 0 || static_cast<double>(reached) < enough))
    reached += weight(sorted[keep++]);
  sorted.resize(keep);
}

}  // namespace

TokenId sample_row(std::span<const float> logits, const SampleRule& rule) {
  float top = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) {
    if (std::isnan(logit)) return -1;
    top = std::max(top, logit);
  }
  if (std::isinf(top)) return -1;
  if (rule.temperature == 0.0F) return static_cast<TokenId>(std::ranges::find(logits, top) - logits.begin());
  std::vector<Candidate> candidates;
  const float least = top + rule.min_p_margin;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) candidates.push_back({logits[i] / rule.temperature, static_cast<TokenId>(i)});
  }
  std::ranges::sort(candidates, likelier);
  if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < candidates.size()) {
    candidates.resize(static_cast<size_t>(rule.top_k));
  }
  keep_likeliest_mass(candidates, rule.top_p);
  const auto score = [&](const Candidate& one) {
    return static_cast<double>(one.logit) + gumbel(rule.seed, rule.position, one.token);
  };
  Candidate best = candidates.front();
  for (const Candidate& one : candidates) {
    if (score(one) > score(best) || (score(one) == score(best) && one.token < best.token)) best = one;
  }
  return best.token;
}

SampleTicket RefSamples::sample(Matrix logits, std::span<const SampleRule> rules) {
  CHECK(logits.rows == std::ssize(rules));
  of_last_.clear();
  for (int row = 0; row < logits.rows; ++row) {
    const std::span<const float> numbers(logits.row(row), static_cast<size_t>(logits.cols));
    of_last_.push_back(sample_row(numbers, rules[static_cast<size_t>(row)]));
  }
  waiting_[++last_] = of_last_;
  return last_;
}

void RefSamples::take(SampleTicket ticket, std::span<TokenId> tokens) {
  const auto found = waiting_.find(ticket);
  CHECK(found != waiting_.end() && found->second.size() == tokens.size());
  std::ranges::copy(found->second, tokens.begin());
  waiting_.erase(found);
}

TokenId RefSamples::known(TokenId token) const {
  if (!is_sampled(token)) return token;
  return std::max(0, of_last_[static_cast<size_t>(row_of_sampled(token))]);
}

}  // namespace kvasir
