// The fields of each API's requests: what is understood, what may be left unread, and nothing else.
//
// A field that nobody reads might be what the client's answer hangs on. So it is refused by name, unless it asks for
// nothing (null, false, 0, empty) or can change no answer.
#pragma once

#include "server/api/json_fields.h"

namespace kvasir {

enum class RequestKind {
  kChat,
  kCompletion,
  kResponse,
  kMessage,
  kOllamaChat,
  kOllamaGenerate,
  kEmbedding,
  kOllamaEmbedding,
  kRerank
};

// Objects within requests.
enum class PartKind {
  kStreamOptions,
  kChatMessage,
  kAnthropicMessage,
  kItem,  // of a response's input
  kReasoning,
  kThinking,
  kText,
  kOutputConfig,
  kTurnConfig,
  kCacheOptions,
  kDiagnostics,
  kFormat,
  kNamedSchema,
  kPrediction,
  kDocument,  // of a rerank
  kContextManagement,
  kContextEdit,
  // of contents
  kTextPart,
  kThoughtPart,
  kToolUse,
  kToolResult,
  kToolReference,
  kToolChange,
  kChangedTool,
  kCacheControl,
  kCacheMark,
  // of tools; what their parameters say is the client's
  kTool,
  kFunction,
  kFlatTool,  // both in one
  kAnthropicTool,
  kNamespace,
  kToolChoice,
  kAllowedTools,
  kChosenFunction,
  kToolCall,
  kCalledFunction
};

// Throws ApiError (400) naming the first field that is neither.
void refuse_unknown_fields(const Fields& fields, RequestKind kind);
void refuse_unknown_fields(const Fields& fields, PartKind kind);

// The same for Ollama's "options".
void refuse_unknown_options(const Fields& options);

}  // namespace kvasir
