// What keeps an answer within a form: the sampler asks it which tokens may come next. sample/ knows no grammars;
// whoever has one implements this.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/ids.h"

namespace kvasir {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Finds out which tokens may come next with at most so much work, and takes off what it took. True: it is known,
  // and mask() is quick. Throws Error when it can never be known.
  virtual bool prepare(std::size_t& /*work*/) { return true; }

  // Sets the logits of tokens that may not come next to minus infinity. Throws Error when none may.
  virtual void mask(std::span<float> logits) = 0;

  // The token was appended. Throws Error when it may not come next.
  virtual void accept(TokenId token) = 0;

  // How many of these tokens, from the first on, may come one after the other. By trying, on a copy.
  virtual std::size_t allowed(std::span<const TokenId> tokens) const;

  // Nothing but an end may follow: the answer is finished even where ends are ignored.
  virtual bool ended() const = 0;

  // A second constraint that stands where this one does, and goes on by itself, on another thread if need be.
  virtual std::unique_ptr<TokenConstraint> fork() const = 0;
};

inline std::size_t TokenConstraint::allowed(std::span<const TokenId> tokens) const {
  const std::unique_ptr<TokenConstraint> copy = fork();
  std::size_t count = 0;
  try {
    while (count < tokens.size() && !copy->ended()) {
      copy->accept(tokens[count]);
      ++count;
    }
  } catch (const Error&) {  // this one may not come
  }
  return count;
}

}  // namespace kvasir
