#include "sample/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"

namespace kvasir {
namespace {

bool has_penalty(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F;
}

void check_range(float value, float least, float most, const char* name, const std::string& where) {
  if (value >= least && value <= most) return;  // false for NaN as well
  fail_usage(fmt::format("{} is {}", name, value), where, fmt::format("use {} to {}", least, most));
}

// Several numbers side by side, as vectors take them: a vocabulary is a hundred thousand of them for each token.
constexpr size_t kSide = 16;

bool has_nan(std::span<const float> values) {
  std::array<int, kSide> wrong{};
  const size_t even = values.size() / kSide * kSide;
  for (size_t i = 0; i < even; i += kSide) {
    for (size_t k = 0; k < kSide; ++k) wrong[k] |= static_cast<int>(values[i + k] != values[i + k]);
  }
  for (size_t i = even; i < values.size(); ++i) wrong[0] |= static_cast<int>(std::isnan(values[i]));
  return std::ranges::any_of(wrong, [](int some) { return some != 0; });
}

}  // namespace

float largest_logit(std::span<const float> values) {
  std::array<float, kSide> top;
  top.fill(-std::numeric_limits<float>::infinity());
  const size_t even = values.size() / kSide * kSide;
  for (size_t i = 0; i < even; i += kSide) {
    for (size_t k = 0; k < kSide; ++k) top[k] = values[i + k] > top[k] ? values[i + k] : top[k];
  }
  for (size_t i = even; i < values.size(); ++i) top[0] = values[i] > top[0] ? values[i] : top[0];
  return *std::ranges::max_element(top);
}

void check_sampling(const SamplingParams& params, const std::string& where) {
  check_range(params.temperature, 0.0F, 100.0F, "temperature", where);
  check_range(params.top_p, 0.0F, 1.0F, "top_p", where);
  check_range(params.min_p, 0.0F, 1.0F, "min_p", where);
  check_range(params.repetition_penalty, 0.01F, 100.0F, "repetition_penalty", where);
  check_range(params.frequency_penalty, -100.0F, 100.0F, "frequency_penalty", where);
  check_range(params.presence_penalty, -100.0F, 100.0F, "presence_penalty", where);
  if (params.top_k < 0)
    fail_usage(fmt::format("top_k is {}", params.top_k), where, "use 0 for all tokens, or a count");
}

// Better an error than a token out of noise. -inf is a forbidden token.
void check_logits(std::span<const float> logits) {
  const float top = largest_logit(logits);
  const bool wrong = has_nan(logits) || top == std::numeric_limits<float>::infinity();
  if (wrong || top == -std::numeric_limits<float>::infinity()) fail_on_logits();
}

void fail_on_logits() {
  fail_input("the model's logits are not numbers", "sampling",
             "its weights, or a cache format too narrow for it, overflow: try --kv f32");
}

Sampler::Sampler(SamplingParams params, std::span<const TokenId> prompt) : params_(std::move(params)) {
  // Below this a draw is greedy in all but its arithmetic, which would divide to infinities.
  constexpr float kGreedy = 1e-6F;
  if (params_.temperature < kGreedy) params_.temperature = 0.0F;
  if (!has_penalty(params_)) return;
  for (const TokenId token : prompt) ++counts_[token].prompt;
}

void Sampler::accept(TokenId token) {
  if (has_penalty(params_)) ++counts_[token].answer;
  if (constraint_) constraint_->accept(token);
}

TokenId Sampler::sample(std::span<float> logits, Position position) {
  CHECK(!logits.empty());
  penalize(logits);
  check_logits(logits);
  if (constraint_) constraint_->mask(logits);
  if (params_.temperature == 0.0F) {
    return static_cast<TokenId>(std::ranges::find(logits, largest_logit(logits)) -
                                logits.begin());  // the first of equals
  }
  keep_candidates(logits);
  keep_likeliest_mass();
  return draw(position);
}

void Sampler::penalize(std::span<float> logits) const {
  for (const auto& [token, bias] : params_.logit_bias) {
    if (token >= 0 && static_cast<size_t>(token) < logits.size()) logits[static_cast<size_t>(token)] += bias;
  }
  for (const auto& [token, count] : counts_) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    logit -= params_.frequency_penalty * static_cast<float>(count.answer);
    if (count.answer > 0) logit -= params_.presence_penalty;
  }
}

// How far below the largest logit a token may be.
float Sampler::min_p_margin() const {
  return params_.min_p > 0.0F ? params_.temperature * std::log(params_.min_p)
                              : -std::numeric_limits<float>::infinity();
}

std::optional<SampleRule> Sampler::rule(Position position) const {
  if (has_penalty(params_) || !params_.logit_bias.empty() || constraint_) return std::nullopt;
  return SampleRule{params_.temperature, params_.top_k, params_.top_p, min_p_margin(), params_.seed, position};
}

// Top-k and min-p need only each token's logit and the largest; ties go to the smaller id.
void Sampler::keep_candidates(std::span<const float> logits) {
  const float top = largest_logit(logits);
  const float least = top + min_p_margin();
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) candidates_.push_back({logits[i] / params_.temperature, static_cast<TokenId>(i)});
  }
  const auto k = static_cast<size_t>(params_.top_k);
  if (k == 0 || k >= candidates_.size()) return;
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  std::ranges::nth_element(candidates_, candidates_.begin() + static_cast<std::ptrdiff_t>(k), likelier);
  candidates_.resize(k);
}

void Sampler::keep_likeliest_mass() {
  if (params_.top_p >= 1.0F || candidates_.empty()) return;
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  const auto weight = [this](const Candidate& c) { return likelihood(c.logit, candidates_.front().logit); };
  std::uint64_t sum = 0;
  for (const Candidate& candidate : candidates_) sum += weight(candidate);
  const double enough = static_cast<double>(params_.top_p) * static_cast<double>(sum);
  std::uint64_t reached = 0;
  size_t keep = 0;
  while (keep < candidates_.size() && (keep == 0 || static_cast<double>(reached) < enough)) {
    reached += weight(candidates_[keep++]);
  }
  candidates_.resize(keep);
}

TokenId Sampler::draw(Position position) const {
  TokenId best = -1;
  double best_score = -std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates_) {
    const double score = static_cast<double>(candidate.logit) + gumbel(params_.seed, position, candidate.token);
    if (best < 0 || score > best_score || (score == best_score && candidate.token < best)) {
      best = candidate.token;
      best_score = score;
    }
  }
  CHECK(best >= 0);
  return best;
}

}  // namespace kvasir
