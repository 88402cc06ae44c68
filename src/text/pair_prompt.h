// A query and a document as the tokens that a reranker reads: between what the tokenizer puts around a pair, or in a
// text that the model was trained with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kvasir {

class PairPrompt {
 public:
  // As a cross-encoder reads them.
  explicit PairPrompt(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  // In a text with {instruction}, {query} and {document} in it, whose special tokens are tokens; those of the three
  // are text.
  PairPrompt(Tokenizer tokenizer, std::string text);

  // By a chat template that knows messages of the roles query and document.
  PairPrompt(Tokenizer tokenizer, ChatTemplate chat);

  bool takes_text() const { return !text_.empty() || chat_; }  // of its own, and not of the tokenizer's
  bool takes_instruction() const;

  struct Asked {
    std::string_view query;
    std::string_view document;
    std::optional<std::string_view> instruction{};  // REQUIRES: takes_instruction()
  };
  // Of the document at most so many tokens are kept, and as many as leave no more than `most` in all.
  struct Cut {
    std::int64_t most = INT64_MAX;
    std::int64_t most_of_document = INT64_MAX;
  };
  Tokenizer::Pair tokens(const Asked& asked, const Cut& cut) const;

 private:
  std::vector<Piece> pieces(const Asked& asked) const;
  Tokenizer::Pair tokens_of(std::span<const Piece> pieces, const Cut& cut) const;

  Tokenizer tokenizer_;
  std::string text_;  // empty: none
  std::optional<ChatTemplate> chat_;
};

}  // namespace kvasir
