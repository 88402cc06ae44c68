#include "engine/draft/text_drafters.h"

#include <algorithm>
#include <bit>

#include "engine/sequence.h"

namespace kvasir {
namespace {

struct OwnText final : DrafterState {
  TokenIndex index{NgramDrafter::kMostTokens};
};

struct PredictedText final : DrafterState {
  explicit PredictedText(std::span<const TokenId> text)
      : index(std::bit_ceil(static_cast<std::uint32_t>(std::max<std::size_t>(text.size(), 256)))) {
    index.append(text);
  }
  TokenIndex index;
  std::int64_t next = 0;   // token of the prediction that should follow …
  std::int64_t known = 0;  // … so many tokens of the answer
};

// The answer is followed token by token; where the two part, its newest tokens are looked for, nearest to where it
// was.
void follow_text(PredictedText& state, std::span<const TokenId> answer) {
  for (; state.known < std::ssize(answer); ++state.known) {
    const bool agrees = state.next >= 0 && state.next < state.index.size() &&
                        state.index.at(state.next) == answer[static_cast<std::size_t>(state.known)];
    if (agrees) {
      ++state.next;
      continue;
    }
    const std::int64_t near = state.next < 0 ? ~state.next : state.next;
    const TokenIndex::Match match =
        state.index.nearest(answer.first(static_cast<std::size_t>(state.known) + 1), near);
    state.next = match.end >= 0 ? match.end : ~near;  // not found: the place is remembered
  }
}

}  // namespace

void NgramDrafter::propose(std::span<const DraftAsk> asks) {
  for (const DraftAsk& ask : asks) {
    if (!ask.state) ask.state = std::make_unique<OwnText>();
    TokenIndex& index = static_cast<OwnText&>(*ask.state).index;
    const std::span<const TokenId> tokens(ask.sequence.tokens);
    index.append(tokens.subspan(static_cast<std::size_t>(index.size())));
    index.continue_text(tokens, ask.most, ask.draft, ask.branches);
  }
}

SuffixDrafter::Division* SuffixDrafter::find(const Sequence& sequence) {
  const auto tenant = of_tenant_.find(sequence.request.tenant.id);
  if (tenant == of_tenant_.end()) return nullptr;
  const auto found = std::ranges::find_if(tenant->second, [&](const Division& one) {
    return one.secret == sequence.request.tenant.secret && one.model == sequence.model();
  });
  return found == tenant->second.end() ? nullptr : &*found;
}

void SuffixDrafter::propose(std::span<const DraftAsk> asks) {
  for (const DraftAsk& ask : asks) {
    Division* division = find(ask.sequence);
    if (division == nullptr) continue;
    division->used = ++clock_;
    division->texts->continue_text(ask.sequence.tokens, ask.most, ask.draft, ask.branches);
  }
}

// What it found in the cache was there when another request ended: that text is known.
void SuffixDrafter::finished(const Sequence& sequence) {
  Division* division = find(sequence);
  if (division == nullptr) {
    std::vector<Division>& all = of_tenant_[sequence.request.tenant.id];
    if (all.size() == kMostTexts) all.erase(std::ranges::min_element(all, {}, &Division::used));
    all.push_back({sequence.request.tenant.secret, sequence.model(), 0, std::make_unique<TokenIndex>(kMostTokens)});
    division = &all.back();
  }
  division->used = ++clock_;
  constexpr std::int64_t kOverlap = 8;  // so that what is new follows what is known
  const std::int64_t from = std::max<std::int64_t>(sequence.record.reuse.reused_tokens - kOverlap, 0);
  const std::span<const TokenId> tokens(sequence.tokens);
  const std::size_t skipped = static_cast<std::size_t>(
      std::max<std::int64_t>(std::min(from, std::ssize(tokens)), std::ssize(tokens) - kMostTokens));
  division->texts->append(tokens.subspan(skipped));
  division->texts->append(TokenIndex::kEnd);
}

std::size_t SuffixDrafter::bytes_of(std::uint32_t tenant) const {
  const auto found = of_tenant_.find(tenant);
  if (found == of_tenant_.end()) return 0;
  std::size_t bytes = 0;
  for (const Division& one : found->second) bytes += one.texts->bytes();
  return bytes;
}

void PredictionDrafter::propose(std::span<const DraftAsk> asks) {
  for (const DraftAsk& ask : asks) {
    const auto& text = ask.sequence.request.prediction;
    if (text == nullptr || text->empty()) continue;
    if (!ask.state) ask.state = std::make_unique<PredictedText>(*text);
    auto& state = static_cast<PredictedText&>(*ask.state);
    follow_text(state, std::span(ask.sequence.tokens).subspan(ask.sequence.request.prompt.size()));
    if (state.next < 0) continue;
    const std::int64_t end = std::min(state.next + ask.most, state.index.size());
    for (std::int64_t place = state.next; place < end; ++place) ask.draft.add(state.index.at(place), 0.9F);
  }
}

}  // namespace kvasir
