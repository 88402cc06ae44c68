#include "grammar/token_mask.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace kvasir::grammar {
namespace {

struct Walk {
  const Matcher& matcher;
  std::size_t work_left;
  OpenSets sets = matcher.sets();
  Stepper stepper = matcher.stepper(sets);

  // Tries the trie's tokens from `from` on, whole subtrees at a time. False: there is too much to try.
  bool run(const TokenTrie& trie, TokenSet& allowed) {
    const bool has_sets = matcher.grammar()->has_sets();
    std::vector<Places> at(trie.max_depth + 1);  // at[d]: after d bytes of the path
    std::vector<OpenSets::Mark> marks(has_sets ? trie.max_depth + 1 : 0);
    at[0] = matcher.places();
    if (has_sets) marks[0] = sets.mark();
    const auto end = static_cast<std::uint32_t>(trie.nodes.size() - 1);
    for (std::uint32_t i = 0; i < end;) {
      const TokenTrie::Node& node = trie.nodes[i];
      const Places& before = at[node.depth - 1U];
      if (before.size() > work_left) return false;
      work_left -= before.size();
      if (has_sets) sets.rewind(marks[node.depth - 1U]);
      const bool is_allowed = stepper.step(before, node.byte, at[node.depth]);
      const std::size_t searched = stepper.take_searched();
      if (searched > work_left) return false;
      work_left -= searched;
      if (!is_allowed) {
        i = node.past;
        continue;
      }
      if (has_sets) marks[node.depth] = sets.mark();
      for (std::uint32_t t = node.first_token; t < trie.nodes[i + 1].first_token; ++t) allowed.insert(trie.tokens[t]);
      ++i;
    }
    return true;
  }
};

}  // namespace

TokenMasker::TokenMasker(std::shared_ptr<const Vocabulary> vocabulary)
    : TokenMasker(std::move(vocabulary), Limits{}) {}

TokenMasker::TokenMasker(std::shared_ptr<const Vocabulary> vocabulary, Limits limits)
    : vocabulary_(std::move(vocabulary)), limits_(limits) {
  CHECK(vocabulary_ != nullptr && limits_.cached_masks > 0);
}

std::shared_ptr<const TokenSet> TokenMasker::mask(const Matcher& matcher) {
  std::size_t all = limits_.work;
  return mask_within(matcher, all);
}

std::shared_ptr<const TokenSet> TokenMasker::mask_within(const Matcher& matcher, std::size_t& work) {
  const auto digest = matcher.digest();
  if (!digest) return compute_within(matcher, work);
  const Key key{matcher.grammar().get(), *digest};
  if (auto found = find(key, matcher.grammar())) return found;
  // Outside of the mutex: two threads may compute the same mask, and the later one's is kept.
  auto mask = compute_within(matcher, work);
  if (mask) remember({key, matcher.grammar(), mask});
  return mask;
}

std::shared_ptr<const TokenSet> TokenMasker::compute_within(const Matcher& matcher, std::size_t& work) const {
  const std::size_t may = std::min(work, limits_.work);
  std::size_t left = may;
  std::optional<TokenSet> allowed = compute(matcher, left);
  work -= allowed ? may - left : may;
  if (!allowed && may == limits_.work) {
    throw Error(Error::Kind::kCapacity, {"finding the tokens that the schema allows takes too long", "schema",
                                         "use fewer or more distinct alternatives"});
  }
  if (!allowed) return nullptr;
  return std::make_shared<const TokenSet>(std::move(*allowed));
}

TokenMasker::Counts TokenMasker::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::shared_ptr<const TokenSet> TokenMasker::find(const Key& key, const std::shared_ptr<const Grammar>& grammar) {
  const std::lock_guard lock(mutex_);
  const auto found = index_.find(key);
  const bool hit = found != index_.end() && found->second->grammar.lock() == grammar;
  if (!hit) {
    ++counts_.misses;
    return nullptr;
  }
  ++counts_.hits;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->mask;
}

void TokenMasker::remember(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (const auto old = index_.find(entry.key); old != index_.end()) {
    entries_.erase(old->second);
    index_.erase(old);
  }
  entries_.push_front(std::move(entry));
  index_[entries_.front().key] = entries_.begin();
  if (entries_.size() <= limits_.cached_masks) return;
  index_.erase(entries_.back().key);
  entries_.pop_back();
}

std::optional<TokenSet> TokenMasker::compute(const Matcher& matcher, std::size_t& work) const {
  std::uint32_t run = 0;
  for (const Place& place : matcher.places()) run = std::max(run, matcher.grammar()->plain_run(place.state));
  // The last of these characters may leave one element only, which the set may have; the one before leaves a million.
  if (matcher.sets().is_open() && run > 0 && run != kUnbounded) --run;
  const Vocabulary::Tier& tier = vocabulary_->tier_for(run);
  TokenSet allowed = tier.allowed;
  Walk walk{matcher, work};
  const bool whole = walk.run(tier.rest, allowed);
  work = walk.work_left;
  if (!whole) return std::nullopt;
  if (matcher.complete()) {
    for (const TokenId end : vocabulary_->ends()) allowed.insert(end);
  }
  return allowed;
}

}  // namespace kvasir::grammar
