#include "engine/draft/token_index.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/mix.h"

namespace kvasir {
namespace {

constexpr std::size_t kFirstSize = 256;
constexpr std::int64_t kMostPlaced = std::int64_t{1} << 31;

std::uint64_t hash_of_run(std::uint64_t hash, TokenId token) {
  return mixed(hash, static_cast<std::uint64_t>(token), 0);
}

}  // namespace

void TokenIndex::append(TokenId token) {
  if (end_ == kMostPlaced) *this = TokenIndex(most_);  // places are numbers of 32 bits: it begins anew
  if (end_ == std::ssize(text_) && text_.size() < most_) grow();
  text_[slot(end_)] = token;
  ++end_;
  link(end_ - 1);
}

// The hashes have as many places as the ring: all are linked anew.
void TokenIndex::grow() {
  const std::size_t size = std::min<std::size_t>(std::max(kFirstSize, 2 * text_.size()), most_);
  text_.resize(size);  // nothing has gone round yet: every place stays where it is
  for (Chain& chain : chains_) {
    chain.newest.assign(size, 0);
    chain.previous.assign(size, 0);
  }
  for (std::int64_t place = 0; place < end_; ++place) link(place);
}

void TokenIndex::link(std::int64_t place) {
  for (std::size_t i = 0; i < kRuns.size(); ++i) {
    std::uint64_t hash = 0;
    bool whole = true;
    for (int k = 0; k < kRuns[i] && whole; ++k) {
      whole = kept(place - k) && at(place - k) != kEnd;
      if (whole) hash = hash_of_run(hash, at(place - k));
    }
    if (!whole) continue;
    Chain& chain = chains_[i];
    std::uint32_t& newest = chain.newest[hash & (chain.newest.size() - 1)];
    chain.previous[slot(place)] = newest;
    newest = static_cast<std::uint32_t>(place) + 1;
  }
}

// How many of the last tokens stood right before `end`.
int TokenIndex::match_at(std::span<const TokenId> tokens, std::int64_t end) const {
  int length = 0;
  const int most = static_cast<int>(std::min<std::size_t>(tokens.size(), kLongestMatch));
  while (length < most && kept(end - 1 - length) &&
         at(end - 1 - length) == tokens[tokens.size() - 1 - static_cast<std::size_t>(length)]) {
    ++length;
  }
  return length;
}

// Calls visit(end, length) for the newest places of each run, until it has seen one of the long run.
template <class Visit>
void TokenIndex::each_match(std::span<const TokenId> tokens, Visit visit) const {
  if (text_.empty()) return;
  for (std::size_t i = 0; i < kRuns.size(); ++i) {
    const int run = kRuns[i];
    if (std::ssize(tokens) < run) continue;
    std::uint64_t hash = 0;
    for (int k = 0; k < run; ++k) hash = hash_of_run(hash, tokens[tokens.size() - 1 - static_cast<std::size_t>(k)]);
    const Chain& chain = chains_[i];
    std::int64_t place = std::int64_t{chain.newest[hash & (chain.newest.size() - 1)]} - 1;
    bool found = false;
    for (int seen = 0; seen < kMostPlaces && kept(place); ++seen) {
      const int length = match_at(tokens, place + 1);
      if (length >= run && place + 1 < end_ && at(place + 1) != kEnd) {
        found = true;
        visit(place + 1, length);
      }
      const std::int64_t before = std::int64_t{chain.previous[slot(place)]} - 1;
      if (before >= place) break;  // the ring has gone round: what was there is another place's
      place = before;
    }
    if (found) return;
  }
}

TokenIndex::Places TokenIndex::longest(std::span<const TokenId> tokens) const {
  Places out;
  each_match(tokens, [&out](std::int64_t end, int length) {
    if (length < out.length) return;
    if (length > out.length) out.count = 0;
    out.length = length;
    out.ends[static_cast<std::size_t>(out.count++)] = end;
  });
  return out;
}

// Those of the places that have this token.
TokenIndex::Places TokenIndex::places_of(TokenId token, const Places& places) const {
  Places out;
  out.length = places.length;
  for (int i = 0; i < places.count; ++i) {
    const std::int64_t end = places.ends[static_cast<std::size_t>(i)];
    if (kept(end) && at(end) == token) out.ends[static_cast<std::size_t>(out.count++)] = end;
  }
  return out;
}

// One way for so many tokens, each time with what most places have, the newest of equals; what others have is left in
// `others`.
void TokenIndex::follow(Way way, std::int64_t most, int branches, Draft& draft, std::vector<Way>& others) const {
  for (std::int64_t n = 0; n < most && way.places.count > 0; ++n) {
    struct Vote {
      TokenId token = kEnd;
      int votes = 0;
    };
    std::array<Vote, kMostPlaces> votes;
    int different = 0;
    int voters = 0;
    for (int i = 0; i < way.places.count; ++i) {
      const std::int64_t end = way.places.ends[static_cast<std::size_t>(i)];
      if (!kept(end) || at(end) == kEnd) continue;
      ++voters;
      const auto known = std::span(votes).first(static_cast<std::size_t>(different));
      const auto same = std::ranges::find(known, at(end), &Vote::token);
      if (same != known.end()) {
        ++same->votes;
      } else {
        votes[static_cast<std::size_t>(different++)] = {at(end), 1};
      }
    }
    if (different == 0) return;
    const auto all = std::span(votes).first(static_cast<std::size_t>(different));
    if (different > 1) std::ranges::stable_sort(all, std::ranges::greater{}, &Vote::votes);
    const auto share = [voters](const Vote& vote) {
      return static_cast<float>(vote.votes) / static_cast<float>(voters);
    };
    for (const Vote& other : all.subspan(1, static_cast<std::size_t>(std::min(different, branches) - 1))) {
      others.push_back({places_of(other.token, way.places), way.parent, share(other)});
    }
    const auto length = static_cast<float>(way.places.length);
    draft.add_behind(way.parent, all[0].token,
                     std::exchange(way.share, 1.0F) * share(all[0]) * length / (length + 1));
    way.places = places_of(all[0].token, way.places);
    for (std::int64_t& end : way.places.ends) ++end;
    ++way.places.length;
    way.parent = draft.size() - 1;
  }
}

void TokenIndex::continue_text(std::span<const TokenId> tokens, std::int64_t most, Draft& draft, int branches) const {
  constexpr std::int64_t kBranchLength = 4;
  std::vector<Way> others;
  follow({longest(tokens)}, most, branches, draft, others);
  const std::int64_t full = draft.size() + kMostBranchTokens;
  for (std::size_t i = 0; i < others.size() && draft.size() < full; ++i) {
    follow(Way(others[i]), std::min(kBranchLength, full - draft.size()), branches, draft, others);
  }
}

TokenIndex::Match TokenIndex::nearest(std::span<const TokenId> tokens, std::int64_t near) const {
  Match best;
  const auto distance = [near](std::int64_t end) { return end < near ? near - end : end - near; };
  each_match(tokens, [&](std::int64_t end, int length) {
    if (length < best.length || (length == best.length && distance(end) >= distance(best.end))) return;
    best = {end, length};
  });
  return best;
}

}  // namespace kvasir
