// What all copies of a Tokenizer share. Constant once built.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_spec.h"
#include "text/unigram.h"
#include "text/word_models.h"

namespace kvasir {

using WordModel = std::variant<Bpe, Unigram, WordPiece, WordLevel, Greedy>;

struct TokenizerData {
  struct Token {
    std::string_view spelled;  // as the vocabulary has it; of a silent token its bytes
    std::string_view bytes;    // what it is among others, neither first nor last
    Decoder::Kind kind = Decoder::Kind::kVocabulary;
    bool exists = false;
    bool special = false;
  };

  std::string where;              // for errors
  std::deque<std::string> texts;  // the bytes and the spellings of all tokens; views point here, so none ever moves
  std::vector<Token> tokens;      // by id
  std::unordered_map<std::string_view, TokenId> by_spelling;  // the vocabulary
  std::unordered_map<std::string_view, TokenId> by_word;      // words that are that token, whatever the model says
  std::unordered_map<std::string_view, TokenId> by_content;   // added tokens

  std::vector<NormalizerStep> normalizers;
  std::optional<AddedTokenFinder> raw_added;         // found in the text as it comes
  std::optional<AddedTokenFinder> normalized_added;  // found after normalization
  std::optional<Pretokenizer> pretokenizer;
  std::optional<WordModel> model;
  std::optional<Decoder> decoder;
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  std::vector<PairPart> pair;  // names both texts, each once

  TokenizerConfig config;
  std::string chat_template_where;
};

// Throws Error when ids or merges contradict each other, and when the model has no unknown token and needs one.
std::shared_ptr<TokenizerData> build_tokenizer(TokenizerSpec spec, const std::string& where);

}  // namespace kvasir
