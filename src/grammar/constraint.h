// GrammarConstraint: keeps one answer within a grammar. What a sampler calls between logits and token.
#pragma once

#include <memory>
#include <span>

#include "base/ids.h"
#include "grammar/matcher.h"
#include "grammar/token_mask.h"

namespace kvasir::grammar {

// A value: a copy continues on its own, as a fork of its sequence does. Copies belong to one thread at a time, all
// together; what apart() gives may go to another.
class GrammarConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const Grammar> grammar, std::shared_ptr<TokenMasker> masker);

  // A copy that shares nothing that changes.
  GrammarConstraint apart() const;

  // Finds out which tokens may come next, with at most so much work; takes off what it took. True: mask() is quick.
  // Throws Error when it would take too long altogether.
  bool prepare(std::size_t& work);

  // Sets the logits of tokens that may not come next to minus infinity; those past the vocabulary too. Throws Error
  // when no token may: the vocabulary cannot spell what the grammar asks for.
  void mask(std::span<float> logits);

  // The token was appended. Throws Error when it may not come next, and changes nothing then.
  void accept(TokenId token);

  // How many of these tokens, from the first on, may come one after the other.
  std::size_t allowed(std::span<const TokenId> tokens) const;

  bool complete() const { return ended_ || matcher_.complete(); }  // the answer may end here
  bool ended() const { return ended_; }                            // an end token was accepted
  const Matcher& matcher() const { return matcher_; }

 private:
  Matcher matcher_;
  std::shared_ptr<TokenMasker> masker_;
  std::shared_ptr<const TokenSet> allowed_;  // null: not known yet
  bool ended_ = false;
};

}  // namespace kvasir::grammar
