#include "engine/draft/guess_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvasir {
namespace {

constexpr float kSampledConfidence = 0.7F;  // where the backend samples, nobody sees how sure the model was

// How far the token's logit is above all others.
float certainty(std::span<const float> logits, TokenId token, float temperature) {
  const float own = logits[static_cast<std::size_t>(token)];
  float other = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (static_cast<TokenId>(i) != token) other = std::max(other, logits[i]);
  }
  return 1 / (1 + std::exp((other - own) / std::max(temperature, 0.5F)));
}

}  // namespace

SamplingParams draft_params(SamplingParams params) {
  params.repetition_penalty = 1;
  params.frequency_penalty = params.presence_penalty = 0;
  params.logit_bias.clear();
  return params;
}

// Noise goes by the target's tokens: so that is how they must be numbered.
std::span<float> GuessSampler::logits_of(std::size_t row, std::size_t vocab) {
  const std::span<float> own = std::span(logits_).subspan(vocab * row, vocab);
  if (tokens_.empty()) return own;
  const auto most = static_cast<std::size_t>(std::ranges::max(tokens_)) + 1;
  spread_.assign(most, -std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < vocab; ++i) spread_[static_cast<std::size_t>(tokens_[i])] = own[i];
  return spread_;
}

std::span<const Guess> GuessSampler::sample(Matrix logits, std::span<const Row> rows) {
  guesses_.clear();
  if (logits.rows == 0) return guesses_;
  rules_.clear();
  for (const Row& row : rows) rules_.push_back(*row.sampler->rule(row.position));
  const SampleTicket ticket = tokens_.empty() ? backend_.sample(logits, rules_) : kNoSample;
  if (ticket != kNoSample) {
    sampled_.resize(rules_.size());
    backend_.take_sampled(ticket, sampled_);
    for (const TokenId token : sampled_) guesses_.push_back({token, kSampledConfidence});
    return guesses_;
  }
  const auto vocab = static_cast<std::size_t>(logits.cols);
  logits_.resize(vocab * static_cast<std::size_t>(logits.rows));
  backend_.download(std::as_writable_bytes(std::span(logits_)), reinterpret_cast<const std::byte*>(logits.data));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<float> own = logits_of(i, vocab);
    const TokenId token = rows[i].sampler->sample(own, rows[i].position);
    guesses_.push_back({token, certainty(own, token, rules_[i].temperature)});
  }
  return guesses_;
}

}  // namespace kvasir
