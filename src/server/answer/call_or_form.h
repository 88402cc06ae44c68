// Tools beside a form: the answer is calls, which nothing holds, or it is the form from its first token on.
#pragma once

#include <memory>
#include <vector>

#include "sample/constraint.h"

namespace kvasir {

// `mark` are the tokens of what begins a call; none of them may be a beginning of the form. `form` is forked.
std::shared_ptr<const TokenConstraint> call_or_form(const TokenConstraint& form, std::vector<TokenId> mark);

}  // namespace kvasir
