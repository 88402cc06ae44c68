#include "grammar/constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace kvasir::grammar {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// Word by word, and in a word by its zeros: within a string nearly all bits are set, elsewhere nearly none.
void forbid_others(const TokenSet& allowed, std::span<float> logits) {
  const std::size_t size = std::min(logits.size(), allowed.size());
  for (std::size_t first = 0; first < size; first += 64) {
    const std::size_t count = std::min<std::size_t>(64, size - first);
    std::uint64_t zeros = ~allowed.words()[first / 64];
    if (zeros == ~std::uint64_t{0}) {
      std::ranges::fill(logits.subspan(first, count), kForbidden);
      continue;
    }
    if (count < 64) zeros &= (std::uint64_t{1} << count) - 1;
    for (; zeros != 0; zeros &= zeros - 1)
      logits[first + static_cast<std::size_t>(std::countr_zero(zeros))] = kForbidden;
  }
  std::ranges::fill(logits.subspan(size), kForbidden);
}

}  // namespace

GrammarConstraint::GrammarConstraint(std::shared_ptr<const Grammar> grammar, std::shared_ptr<TokenMasker> masker)
    : matcher_(std::move(grammar)), masker_(std::move(masker)) {
  CHECK(masker_ != nullptr);
}

GrammarConstraint GrammarConstraint::apart() const {
  GrammarConstraint copy = *this;
  copy.matcher_ = matcher_.apart();
  return copy;
}

bool GrammarConstraint::prepare(std::size_t& work) {
  if (!ended_ && allowed_ == nullptr) allowed_ = masker_->mask_within(matcher_, work);
  return ended_ || allowed_ != nullptr;
}

void GrammarConstraint::mask(std::span<float> logits) {
  if (ended_) {
    TokenSet only_ends(masker_->vocabulary().size());
    for (const TokenId end : masker_->vocabulary().ends()) only_ends.insert(end);
    return forbid_others(only_ends, logits);
  }
  if (allowed_ == nullptr) allowed_ = masker_->mask(matcher_);
  if (allowed_->empty()) {
    fail_input("no token of the model can continue the answer as its schema asks", "schema",
               "the model's vocabulary does not have these characters");
  }
  forbid_others(*allowed_, logits);
}

void GrammarConstraint::accept(TokenId token) {
  const Vocabulary& vocabulary = masker_->vocabulary();
  if (token < 0 || static_cast<std::size_t>(token) >= vocabulary.size())
    fail_input(fmt::format("token {} is not in the vocabulary", token), "schema");
  if (vocabulary.is_end(token) && complete()) {
    ended_ = true;
    return;
  }
  const std::string& bytes = vocabulary.bytes_of(token);
  if (ended_ || vocabulary.is_end(token) || bytes.empty() || !matcher_.accept(bytes)) {
    fail_input(fmt::format("token {} does not continue the answer as its schema asks", token), "schema");
  }
  allowed_ = nullptr;
}

std::size_t GrammarConstraint::allowed(std::span<const TokenId> tokens) const {
  const Vocabulary& vocabulary = masker_->vocabulary();
  Matcher matcher = matcher_;
  std::size_t count = 0;
  for (; count < tokens.size() && !ended_; ++count) {
    const auto id = static_cast<std::size_t>(tokens[count]);
    if (tokens[count] < 0 || id >= vocabulary.size() || vocabulary.is_end(tokens[count])) break;
    const std::string& bytes = vocabulary.bytes_of(tokens[count]);
    if (bytes.empty() || !matcher.accept(bytes)) break;
  }
  return count;
}

}  // namespace kvasir::grammar
