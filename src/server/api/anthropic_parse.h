// Anthropic's requests. JSON in, values out; ApiError names what is wrong.
#pragma once

#include "server/api/api_types.h"

namespace kvasir {

ChatRequest parse_anthropic_messages(const Json& body);
ChatRequest parse_anthropic_count(const Json& body);  // the same without max_tokens

}  // namespace kvasir
