// What all copies of a Tokenizer share. Constant once built.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_json.h"

namespace kvasir {

struct TokenizerData {
  struct Token {
    std::string_view bytes;  // into text_of_tokens
    bool exists = false;
    bool special = false;
  };

  std::string where;           // for errors
  std::string text_of_tokens;  // the bytes and the spellings of all tokens; views point here, so it never moves
  std::vector<Token> tokens;   // by id
  std::unordered_map<std::string_view, TokenId> by_spelling;  // the vocabulary
  std::unordered_map<std::string_view, TokenId> by_word;      // the same, as words are written: for ignore_merges
  std::unordered_map<std::string_view, TokenId> by_content;   // added tokens

  bool ignore_merges = false;
  std::vector<NormalizerStep> normalizers;
  std::optional<AddedTokenFinder> raw_added;         // found in the text as it comes
  std::optional<AddedTokenFinder> normalized_added;  // found after normalization
  std::optional<Pretokenizer> pretokenizer;
  std::optional<Bpe> bpe;
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  int leading_spaces = 0;  // left out at the beginning of a decoded text

  TokenizerConfig config;
  std::string chat_template_where;
};

// Throws Error when ids or merges contradict each other.
std::shared_ptr<TokenizerData> build_tokenizer(TokenizerSpec spec, const std::string& where);

}  // namespace kvasir
