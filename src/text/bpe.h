// Byte-pair encoding: one word -> the tokens its merges lead to.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace kvasir {

// The merges, as an open-addressing table from a pair of tokens to its rank and what it becomes. Constant
// once built.
class MergeTable {
 public:
  struct Merge {
    std::int32_t rank = -1;  // lower ranks merge first; -1: the pair does not merge
    TokenId result = -1;
  };

  explicit MergeTable(size_t merges);

  // A pair given twice keeps its later rank, as in the Hugging Face library. REQUIRES: no more calls than
  // announced.
  void insert(TokenId left, TokenId right, Merge merge);
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    std::uint64_t pair = 0;
    Merge merge;  // rank -1: empty
  };

  size_t slot_of(std::uint64_t pair) const;

  std::vector<Slot> slots_;  // a power of two, at most half full
};

class Bpe {
 public:
  // Where a character stands in its word: bits.
  static constexpr int kContinues = 1;
  static constexpr int kEnds = 2;
  static constexpr int kPlaces = 4;

  // What is put around a character before it is looked for, by its place.
  struct Affixes {
    std::string prefix;
    std::string suffix;

    std::string_view before(int place) const { return (place & kContinues) != 0 ? prefix : std::string_view{}; }
    std::string_view after(int place) const { return (place & kEnds) != 0 ? suffix : std::string_view{}; }
  };

  // What a word is made of before it merges: its bytes, or, where `characters` are given, those, and the bytes of a
  // character that is none of them, with its affixes. What has no token becomes the unknown token, one for a run when
  // `fuse_unknown`, or nothing: each such byte by itself, or a character whose bytes are not all tokens.
  struct Alphabet {
    std::array<TokenId, 256> bytes;                                                        // -1: no token
    std::optional<std::array<std::unordered_map<char32_t, TokenId>, kPlaces>> characters;  // by place
    Affixes affixes;
    std::optional<TokenId> unknown;
    bool fuse_unknown = false;
  };

  Bpe(MergeTable merges, Alphabet alphabet) : merges_(std::move(merges)), alphabet_(std::move(alphabet)) {}

  // Appends the tokens of one word. Among the pairs of neighbours the one of lowest rank merges first, the
  // leftmost of equals; n log n in the word's length. REQUIRES: less than 2^31 bytes, marks of spaces (pieces.h)
  // counted as one.
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;

 private:
  class Symbols;

  std::vector<TokenId> symbols_of(std::string_view word) const;
  void merge_short(std::vector<TokenId>& symbols) const;
  void merge_long(std::vector<TokenId>& symbols) const;

  MergeTable merges_;
  Alphabet alphabet_;
};

}  // namespace kvasir
