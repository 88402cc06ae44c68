// OpenAI's requests. JSON in, values out; ApiError names what is wrong.
#pragma once

#include "server/api/api_types.h"

namespace kvasir {

ChatRequest parse_openai_chat(const Json& body);
CompletionRequest parse_openai_completion(const Json& body);

}  // namespace kvasir
