// Who guesses the next tokens of a sequence, so that one step can verify several of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace kvasir {

struct Sequence;

// A guess changes no answer: each of its rows is sampled from as if there were no guess, and what was guessed wrong
// is never part of the sequence, nor found in the cache.
class Drafter {
 public:
  Drafter() = default;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;
  virtual ~Drafter() = default;

  // Leaves at most `most` tokens of the model's vocabulary in `draft`, which is empty: those that may follow the
  // sequence's own, in order.
  virtual void propose(const Sequence& sequence, std::int64_t most, std::vector<TokenId>& draft) = 0;
};

}  // namespace kvasir
