// What a tokenizer.json, a tokenizer.model or a GGUF vocabulary says, as plain data: read by tokenizer_json.cpp,
// sentencepiece_model.cpp and gguf_vocab.cpp, made into a tokenizer by tokenizer_data.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

namespace kvasir {

// What a word holds when the model gets it.
enum class Spelling : std::uint8_t {
  kByteLevel,  // bytes, which the vocabulary writes in the alphabet of byte_level.h
  kPieces,     // characters, as the vocabulary writes them
};

enum class ModelKind : std::uint8_t {
  kBpe,
  kUnigram,
  kWordPiece,
  kWordLevel,
  kGreedy,
};

// What a pair of texts becomes: tokens of the post-processor and the two texts, each with the type of its tokens.
struct PairPart {
  enum class What : std::uint8_t { kToken, kFirst, kSecond };

  What what = What::kToken;
  TokenId token = -1;  // kToken
  TokenId type = 0;
};

struct TokenizerSpec {
  // One that no text becomes.
  struct SilentToken {
    std::string bytes;
    TokenId id = -1;
    bool special = false;
  };

  struct Merge {
    std::string left;
    std::string right;
    std::int32_t rank = 0;  // the lowest merges first, the leftmost of equals
  };

  // Whether a word that is a token is that token, whatever the merges say.
  enum class WholeWords : std::uint8_t {
    kMerge,
    kTake,       // "ignore_merges"
    kLineFeeds,  // it is, where it is made of line feeds
  };

  ModelKind model = ModelKind::kBpe;
  Spelling spelling = Spelling::kByteLevel;  // kPieces unless the model is kBpe
  std::vector<std::pair<std::string, TokenId>> vocab;
  std::vector<SilentToken> silent;
  std::optional<std::string> unknown_token;
  bool byte_fallback = true;  // kPieces: a character without a token becomes its bytes, where these are tokens

  // kBpe.
  std::vector<Merge> merges;
  bool fuse_unknown = false;
  WholeWords whole_words = WholeWords::kMerge;
  std::string word_suffix;  // of the last character of a word; only with kPieces

  // kBpe and kWordPiece: of what does not begin a word; kBpe only with kPieces.
  std::string continuing_prefix;
  size_t most_characters = SIZE_MAX;  // kWordPiece: of a word; one that has more is unknown

  // kUnigram.
  std::vector<double> scores;  // of each entry of vocab
  double unknown_score = 0;
  bool bytes_are_text = true;  // the text "<0x41>" may become that token, as in the Hugging Face library

  std::vector<AddedToken> added;
  bool added_as_written = false;  // those that are looked for in normalized text are not normalized for that
  std::vector<NormalizerStep> normalizers;
  std::vector<Pretokenizer::Step> pretokenizers;
  std::vector<DecodeStep> decoder;

  // What the post-processor puts around a text.
  std::vector<TokenId> before;
  std::vector<TokenId> after;
  std::vector<PairPart> pair;  // empty: the two as documents, one behind the other
};

}  // namespace kvasir
