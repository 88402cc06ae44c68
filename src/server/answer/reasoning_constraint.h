// A form that begins behind the model's thoughts: until these end, any text may come.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sample/constraint.h"

namespace kvasir {

struct ReasoningGate {
  enum class State { kMayOpen, kInside, kPassed };  // kMayOpen: thoughts may come first, or the form at once

  State state = State::kInside;
  std::optional<TokenId> open{};  // kMayOpen: the token that begins them
  TokenId close = -1;             // that ends them
  std::vector<TokenId> ends{};    // of answers: none may come before the form is whole
};

// `form` holds what follows; it is forked.
std::shared_ptr<const TokenConstraint> after_reasoning(const TokenConstraint& form, ReasoningGate gate);

}  // namespace kvasir
