// A vocabulary as masks need it: the tokens' bytes in tries, so that tokens with a common beginning are tried
// together.
//
// Inside a JSON string nearly every token of a vocabulary is allowed, and trying them one by one would be most of the
// work. So tokens of plain characters only (whole characters that need no escape) are grouped by how many characters
// they have: a state that takes any n plain characters allows all tokens of up to n at once, and only the rest is
// walked. A Tier is one such cut: those allowed at once, and the trie of the rest.
//
// Constant after construction: one for each model, shared by all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"

namespace kvasir::grammar {

// A bit for every token: set when it is allowed.
class TokenSet {
 public:
  explicit TokenSet(std::size_t size = 0) : words_((size + 63) / 64), size_(size) {}

  void insert(TokenId token) { words_[index(token) / 64] |= std::uint64_t{1} << index(token) % 64; }
  bool contains(TokenId token) const { return words_[index(token) / 64] >> index(token) % 64 & 1; }
  bool empty() const;
  std::size_t count() const;
  std::size_t size() const { return size_; }  // of the vocabulary
  std::span<const std::uint64_t> words() const { return words_; }

  friend bool operator==(const TokenSet&, const TokenSet&) = default;

 private:
  static std::size_t index(TokenId token) { return static_cast<std::size_t>(token); }

  std::vector<std::uint64_t> words_;
  std::size_t size_;
};

// A trie in preorder: a node's subtree is what lies between it and `past`.
struct TokenTrie {
  struct Node {
    std::uint32_t past = 0;         // the first node that is not in the subtree
    std::uint32_t first_token = 0;  // tokens that end here, up to the next node's first
    std::uint16_t depth = 0;        // bytes from the root, this one included
    std::uint8_t byte = 0;
  };

  std::vector<Node> nodes;      // one more than there are; the last closes the tokens
  std::vector<TokenId> tokens;  // by the node they end at
  std::size_t max_depth = 0;
};

class Vocabulary {
 public:
  struct Tier {
    std::uint32_t characters = 0;  // any text of so many plain characters is allowed …
    TokenSet allowed;              // … so these are …
    TokenTrie rest;                // … and these must be walked
  };

  // tokens[id] are the bytes of token id. An empty one is never allowed: special tokens and unused ids are given so.
  // `ends` are the tokens that end a text, allowed where it is complete; their bytes do not count. Throws Error for a
  // token of 64 KiB or more, or an end that is not a token.
  Vocabulary(std::vector<std::string> tokens, std::vector<TokenId> ends);

  std::size_t size() const { return tokens_.size(); }
  const std::string& bytes_of(TokenId token) const { return tokens_[static_cast<std::size_t>(token)]; }
  bool is_end(TokenId token) const;
  std::span<const TokenId> ends() const { return ends_; }

  // The tier that allows the most at once where any `run` plain characters may follow.
  const Tier& tier_for(std::uint32_t run) const;

 private:
  std::vector<std::string> tokens_;
  std::vector<TokenId> ends_;  // sorted
  std::vector<Tier> tiers_;    // by characters; the first has 0 and walks all
};

}  // namespace kvasir::grammar
