// The unigram model of SentencePiece: one word -> the row of pieces whose scores add up to the most.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/byte_trie.h"

namespace kvasir {

class Unigram {
 public:
  struct Piece {
    std::string_view text;
    TokenId id = -1;
    double score = 0;
  };
  // What becomes of a character that is no piece: its bytes, where `bytes` has them all; else the unknown token, one
  // for a run of such characters.
  struct Unknown {
    TokenId id = -1;
    double score = 0;                // of each such character
    std::array<TokenId, 256> bytes;  // -1: no token
  };

  Unigram(const std::vector<Piece>& pieces, Unknown unknown);

  // Appends the tokens of one word. Of rows with equal sums the one that was found first counts: that whose last
  // piece begins first. The time grows with the word's length times that of the longest piece; memory is needed for
  // the longest stretch that pieces bridge, not for the word.
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;

 private:
  class Lattice;

  ByteTrie trie_;
  std::vector<double> scores_;  // by id
  Unknown unknown_;
};

}  // namespace kvasir
