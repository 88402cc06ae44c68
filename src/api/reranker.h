// A model that scores documents for a query: how it reads a pair, and what makes a score of its rows.
#pragma once

#include <filesystem>
#include <optional>

#include "model/rerank_head.h"
#include "model/spec.h"
#include "text/chat_template.h"
#include "text/pair_prompt.h"
#include "text/tokenizer.h"

namespace kvasir {

struct Reranker {
  PairPrompt prompt;
  RerankHead head;
};

// None: the model does not rerank. Throws Error where its files are wrong.
std::optional<Reranker> make_reranker(const std::filesystem::path& model, ModelSpec spec, const Tokenizer& tokenizer,
                                      const std::optional<ChatTemplate>& chat);

inline constexpr const char* kNoReranker =
    "the model does not rerank: it has no classifier of one label, and nothing says which tokens mean yes and no";

}  // namespace kvasir
