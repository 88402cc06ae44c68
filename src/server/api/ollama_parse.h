// Ollama's requests. JSON in, values out; ApiError names what is wrong.
#pragma once

#include <variant>

#include "server/api/api_types.h"

namespace kvasir {

ChatRequest parse_ollama_chat(const Json& body);

// A prompt is a user's message, unless it is "raw": then it is the text to continue.
std::variant<ChatRequest, CompletionRequest> parse_ollama_generate(const Json& body);

}  // namespace kvasir
