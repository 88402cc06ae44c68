// What a tokenizer.json or a GGUF vocabulary says, as plain data: read by tokenizer_json.cpp and gguf_vocab.cpp, made
// into a tokenizer by tokenizer_data.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

namespace kvasir {

// How the vocabulary writes its tokens, and so what a word is made of before it merges.
enum class Spelling : std::uint8_t {
  kByteLevel,  // bytes, in the alphabet of byte_level.h
  kPieces,     // characters, spelled as in pieces.h
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

  // The BPE model.
  Spelling spelling = Spelling::kByteLevel;
  std::vector<std::pair<std::string, TokenId>> vocab;
  std::vector<SilentToken> silent;
  std::vector<Merge> merges;
  std::optional<std::string> unknown_token;
  bool fuse_unknown = false;
  bool byte_fallback = true;   // kPieces: a character without a token becomes its bytes, where these are tokens
  bool byte_pieces = true;     // kPieces: "<0x0A>" is a byte when it is decoded
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say

  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizers;
  std::vector<Pretokenizer::Step> pretokenizers;

  // What the post-processor puts around a text.
  std::vector<TokenId> before;
  std::vector<TokenId> after;

  int leading_spaces = 0;  // at most so many are left out at the beginning of a decoded text
};

}  // namespace kvasir
