#include "engine/draft/guess_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kvasir {
namespace {

constexpr float kSampledConfidence = 0.7F;  // where the backend samples, nobody sees how sure the model was

constexpr float kLeastBeside = 0.04F;  // what is less sure beside another is no guess

// How far one logit is above another, as a share of both.
float share(float own, float other, float temperature) {
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

std::vector<Guess>& GuessSampler::guesses_of(std::size_t row) {
  if (guesses_.size() <= row) guesses_.resize(row + 1);
  guesses_[row].clear();
  return guesses_[row];
}

// And what would be sampled were it not for those before: they are left out of the logits one by one.
void GuessSampler::guess(std::span<float> logits, const Row& row, std::vector<Guess>& out) const {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const float temperature = row.sampler->rule(row.position)->temperature;
  const TokenId first = row.sampler->sample(logits, row.position);
  const float top = std::exchange(logits[static_cast<std::size_t>(first)], kNone);
  float next = largest_logit(logits);
  out.push_back({first, share(top, next, temperature)});
  for (; std::ssize(out) < row.branches && next != kNone; next = largest_logit(logits)) {
    const TokenId token = row.sampler->sample(logits, row.position);
    const float sure = share(std::exchange(logits[static_cast<std::size_t>(token)], kNone), top, temperature);
    if (sure < kLeastBeside) return;
    out.push_back({token, std::min(sure, 0.5F)});
  }
}

std::span<const std::vector<Guess>> GuessSampler::sample(Matrix logits, std::span<const Row> rows) {
  if (logits.rows == 0) return {};
  rules_.clear();
  for (const Row& row : rows) rules_.push_back(*row.sampler->rule(row.position));
  const SampleTicket ticket = tokens_.empty() ? backend_.sample(logits, rules_) : kNoSample;
  if (ticket != kNoSample) {
    sampled_.resize(rules_.size());
    backend_.take_sampled(ticket, sampled_);
    for (std::size_t i = 0; i < rows.size(); ++i) guesses_of(i).push_back({sampled_[i], kSampledConfidence});
    return std::span(guesses_).first(rows.size());
  }
  const auto vocab = static_cast<std::size_t>(logits.cols);
  logits_.resize(vocab * static_cast<std::size_t>(logits.rows));
  backend_.download(std::as_writable_bytes(std::span(logits_)), reinterpret_cast<const std::byte*>(logits.data));
  for (std::size_t i = 0; i < rows.size(); ++i) guess(logits_of(i, vocab), rows[i], guesses_of(i));
  return std::span(guesses_).first(rows.size());
}

void GuessSampler::add(std::span<const Guess> guesses, Draft& draft) {
  const std::int32_t parent = draft.size() - 1;
  for (std::size_t i = 0; i < guesses.size(); ++i) {
    const Guess& one = guesses[i];
    if (one.token < 0 || one.token >= vocab_) {
      if (i == 0) return;
      continue;
    }
    if (i == 0) {
      draft.add(one.token, one.sure);
    } else {
      branches_.push_back({&draft, parent, one});
    }
  }
}

void GuessSampler::add_branches() {
  for (const Branch& one : branches_) {
    Draft& draft = *one.draft;
    const auto branched = draft.size() - static_cast<std::int64_t>(draft.view().chain_length());
    if (branched < kMostBranchTokens) draft.add_behind(one.parent, one.guess.token, one.guess.sure);
  }
  branches_.clear();
}

}  // namespace kvasir
