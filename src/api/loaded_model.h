// A model with everything that answering with it needs, tied together once: for the library and for the server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/draft_loader.h"
#include "api/reranker.h"
#include "backend/backend.h"
#include "engine/embedder.h"
#include "engine/engine.h"
#include "kvasir/kvasir.h"
#include "model/model.h"
#include "model/vector_head.h"
#include "sample/sampling_overrides.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kvasir {

// The one place where what a caller asks for becomes an engine's configuration. Throws Error for policies that are
// none.
EngineConfig engine_config(const LlmOptions& options, std::vector<std::vector<TokenId>> public_texts = {});

// Members in the order they depend on each other: the engine goes first, the backend last.
struct LoadedModel {
  // `public_files`: files whose beginnings of prompts all tenants share, computed before this returns. Throws Error.
  explicit LoadedModel(const LlmOptions& options, std::span<const std::filesystem::path> public_files = {});

  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat;
  SamplingOverrides sampling;                      // what the model asks for where a request says nothing
  std::vector<std::vector<TokenId>> public_texts;  // beginnings that all tenants share
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  LoadedDraft draft;
  Engine engine;
  Embedder embedder;                 // of the same model: it runs between the engine's steps
  VectorHead vectors;                // what it makes of texts …
  std::optional<Reranker> reranker;  // … and of pairs; none: the model does not rerank
  std::int64_t longest = 0;          // sequence that fits the context and, alone, the whole cache
};

}  // namespace kvasir
