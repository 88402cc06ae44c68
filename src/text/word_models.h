// The models that look words up: WordPiece takes the longest piece again and again, WordLevel the word or nothing,
// and Greedy the longest string of bytes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/byte_trie.h"

namespace kvasir {

using TokenTexts = std::vector<std::pair<std::string_view, std::int32_t>>;

class WordPiece {
 public:
  struct Rules {
    TokenId unknown = -1;  // what a word becomes that is not made of pieces, or has too many characters
    std::string continuing_prefix = "##";  // of the pieces that do not begin a word
    size_t most_characters = 100;
  };

  WordPiece(TokenTexts pieces, Rules rules);

  // Appends the tokens of one word. The time grows with its length times that of the longest piece.
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;

 private:
  ByteTrie trie_;
  Rules rules_;
  ByteTrie::Node inside_;  // where a piece that does not begin a word begins; kNone: there is no such piece
};

class WordLevel {
 public:
  WordLevel(TokenTexts words, TokenId unknown) : trie_(std::move(words)), unknown_(unknown) {}

  void encode_word(std::string_view word, std::vector<TokenId>& out) const;

 private:
  ByteTrie trie_;
  TokenId unknown_;
};

class Greedy {
 public:
  // `unknown` is what a byte becomes that begins no token; -1: nothing.
  Greedy(TokenTexts tokens, TokenId unknown) : trie_(std::move(tokens)), unknown_(unknown) {}

  void encode_word(std::string_view word, std::vector<TokenId>& out) const;

 private:
  ByteTrie trie_;
  TokenId unknown_;
};

}  // namespace kvasir
