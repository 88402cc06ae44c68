// A model with everything that answering with it needs, tied together once: for the library and for the server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "engine/engine.h"
#include "kvasir/kvasir.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kvasir {

// Members in the order they depend on each other: the engine goes first, the backend last.
struct LoadedModel {
  explicit LoadedModel(const LlmOptions& options);  // throws Error

  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  Engine engine;
  std::int64_t longest = 0;  // sequence that fits the context and, alone, the cache
};

}  // namespace kvasir
