#include "engine/draft/token_index.h"

#include <algorithm>

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

void TokenIndex::continue_text(std::span<const TokenId> tokens, std::int64_t most, Draft& draft) const {
  Places places = longest(tokens);
  const auto ends = [&places] { return std::span(places.ends).first(static_cast<std::size_t>(places.count)); };
  while (std::ssize(draft.tokens) < most && places.count > 0) {
    // The newest of those that most agree with.
    TokenId best = kEnd;
    int votes = 0;
    int voters = 0;
    for (const std::int64_t end : ends()) {
      if (!kept(end) || at(end) == kEnd) continue;
      ++voters;
      const auto same = [&](std::int64_t other) { return kept(other) && at(other) == at(end); };
      const int count = static_cast<int>(std::ranges::count_if(ends(), same));
      if (count > votes) {
        votes = count;
        best = at(end);
      }
    }
    if (best == kEnd) return;
    const auto length = static_cast<float>(places.length + std::ssize(draft.tokens));
    draft.add(best, static_cast<float>(votes) / static_cast<float>(voters) * length / (length + 1));
    int left = 0;
    for (const std::int64_t end : ends()) {
      if (kept(end) && at(end) == best) places.ends[static_cast<std::size_t>(left++)] = end + 1;
    }
    places.count = left;
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
