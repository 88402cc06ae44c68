// What a tokenizer.json says, as plain data: read by tokenizer_json.cpp, made into a tokenizer by
// tokenizer.cpp.
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

struct TokenizerSpec {
  // The BPE model. Tokens are spelled in the byte-level alphabet.
  std::vector<std::pair<std::string, TokenId>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  // in the order of their ranks
  std::optional<std::string> unknown_token;
  bool fuse_unknown = false;
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say

  std::vector<AddedToken> added;
  std::vector<NormalForm> normalizers;
  std::vector<Pretokenizer::Step> pretokenizers;

  // What the post-processor puts around a text.
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

}  // namespace kvasir
