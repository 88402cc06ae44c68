// What a request says of speculative decoding: our `speculative`, and OpenAI's `prediction`.
#pragma once

#include <string>

#include "engine/draft/drafters.h"
#include "server/api/json_fields.h"

namespace kvasir {

// false, true, the name of a drafter, a list of names, or {"drafter": name or list, "max_tokens": 8, "tree": 2}.
SpeculativeParams read_speculative(const Fields& fields);

// {"type": "content", "content": text, or parts of it}. Empty: there is none.
std::string read_prediction(const Fields& fields);

}  // namespace kvasir
