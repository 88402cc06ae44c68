// The fields of each API's requests: what is understood, what may be left unread, and nothing else.
//
// A field that nobody reads might be what the client's answer hangs on. So it is refused by name, unless it asks for
// nothing (null, false, 0, empty) or can change no answer.
#pragma once

#include "server/api/json_fields.h"

namespace kvasir {

enum class RequestKind { kChat, kCompletion, kResponse, kMessage, kOllama, kEmbedding, kOllamaEmbedding, kRerank };

// Throws ApiError (400) naming the first field that is neither.
void refuse_unknown_fields(const Fields& fields, RequestKind kind);

// The same for Ollama's "options".
void refuse_unknown_options(const Fields& options);

}  // namespace kvasir
