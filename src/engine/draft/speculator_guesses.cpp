// The part of Speculator that looks at single guesses: how they are asked for, what is left of them before anybody
// plans with them, and how right they were.
#include <algorithm>
#include <numeric>

#include "engine/draft/speculator.h"

namespace kvasir {
namespace {

// A draft's tokens to this one.
std::vector<TokenId> path_to(const Draft& draft, std::int32_t token) {
  std::vector<TokenId> out;
  for (std::int32_t at = token; at >= 0; at = draft.parents[static_cast<std::size_t>(at)]) {
    out.push_back(draft.tokens[static_cast<std::size_t>(at)]);
  }
  std::ranges::reverse(out);
  return out;
}

void keep_allowed(const TokenConstraint& form, Draft& draft) {
  if (draft.empty()) return;
  if (!draft.view().branches()) return draft.cut(form.allowed(draft.tokens));
  draft.keep_if([&, whole = draft](std::int32_t token) {
    const std::vector<TokenId> path = path_to(whole, token);
    return form.allowed(path) == path.size();
  });
}

}  // namespace

// What came since, with what was guessed of it: with all that was guessed of the same place.
void Speculator::compare(Sequence& sequence) {
  SequenceDrafts& drafts = *sequence.drafts;
  for (Track& track : drafts.tracks) {
    Draft& guess = track.guess;
    for (Position at = drafts.seen; !guess.empty() && at < std::ssize(sequence.tokens); ++at) {
      const TokenId came = sequence.tokens[static_cast<std::size_t>(at)];
      for (std::int32_t i = 0; i < guess.size(); ++i) {
        const auto token = static_cast<std::size_t>(i);
        if (guess.parents[token] >= 0) continue;
        track.acceptance.learn(guess.confidence[token], guess.tokens[token] == came, Acceptance::place_of(guess, i));
      }
      guess.follow(came);
    }
  }
  drafts.seen = std::ssize(sequence.tokens);
}

double Speculator::promises_of(const Track& track) {
  track.acceptance.reaches(track.guess, reaches_);
  return std::reduce(reaches_.begin(), reaches_.end());
}

// What is wrong makes a state compute the right ones again: none but likely tokens are worth that.
void Speculator::keep_likely(const Sequence& sequence, Track& track) {
  constexpr double kLikely = 0.5;
  if (verify_ == SpeculationConfig::Verify::kAll || !p_.cache.has_states(sequence.lease.policy())) return;
  track.acceptance.reaches(track.guess, reaches_);
  track.guess.keep_if([this](std::int32_t token) { return reaches_[static_cast<std::size_t>(token)] >= kLikely; });
}

// What the form of an answer forbids is not proposed, nor anything behind its end.
void Speculator::trim(const Sequence& sequence, Draft& draft) {
  const std::vector<TokenId>& stops = sequence.request.stop_tokens;
  const auto ends = [&](std::int32_t token) {
    return std::ranges::find(stops, draft.tokens[static_cast<std::size_t>(token)]) != stops.end();
  };
  draft.keep_if([&](std::int32_t token) { return !ends(token); });
  const TokenConstraint* form = sequence.sampler.constraint().get();
  if (form != nullptr) keep_allowed(*form, draft);
}

// Who says more than may be verified at once is cut short: a chain is left of who may not branch.
void Speculator::ask(std::size_t drafter, std::span<Candidate* const> whom, std::int64_t most) {
  std::vector<DraftAsk> asks;
  asks.reserve(whom.size());
  for (Candidate* one : whom) {
    Track& track = one->sequence->drafts->tracks[drafter];
    track.guess.clear();
    const std::int64_t chain = one->branches > 1 ? kMostTreeTokens - kMostBranchTokens : most;
    asks.push_back({*one->sequence, std::min({most, one->most, chain}), track.guess, track.state, one->branches});
  }
  drafters_[drafter]->propose(asks);
  for (Candidate* one : whom) {
    Track& track = one->sequence->drafts->tracks[drafter];
    const DraftView guess = track.guess.view();
    if (guess.branches()) track.guess.cut(one->branches > 1 ? kMostTreeTokens : guess.chain_length());
    trim(*one->sequence, track.guess);
    keep_likely(*one->sequence, track);
  }
}

}  // namespace kvasir
