// Tokens that may follow a text: a chain, or a small tree of several ways to go on.
//
// INVARIANT: parents stand before their children, so that any first tokens of a draft are a draft. The first of those
// that follow the same token is the likeliest; from the first token on, as long as each follows the one before it,
// is the main chain, and all others are branches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "layout/kv_view.h"

namespace kvasir {

inline constexpr int kMostBranches = 4;                // tokens that may follow the same one
inline constexpr std::int64_t kMostBranchTokens = 16;  // of a draft: tokens of branches
inline constexpr std::int64_t kMostTreeTokens =
    kMostTreeRows - 1;  // of a draft that branches: its text has a row, too

// A draft that a step verifies.
struct DraftView {
  std::span<const TokenId> tokens{};
  std::span<const std::int32_t> parents{};  // [tokens]: by place in the draft; -1: it follows the text

  std::size_t size() const { return tokens.size(); }
  bool empty() const { return tokens.empty(); }
  std::size_t chain_length() const;  // of the main chain
  bool branches() const { return chain_length() < size(); }
  int depth(std::size_t place) const;  // how many of its tokens stand before this one
  // The place of the token where it follows `parent`; -1: it is not there.
  std::int32_t find(std::int32_t parent, TokenId token) const;
};

struct Draft {
  std::vector<TokenId> tokens;
  std::vector<float> confidence;      // [tokens]: how sure each is where those before it are right, 0 to 1
  std::vector<std::int32_t> parents;  // [tokens]: see DraftView

  std::int32_t size() const { return static_cast<std::int32_t>(tokens.size()); }
  bool empty() const { return tokens.empty(); }
  DraftView view() const { return {tokens, parents}; }

  void add(TokenId token, float sure) { add_behind(size() - 1, token, sure); }
  void add_behind(std::int32_t parent, TokenId token, float sure) {
    tokens.push_back(token);
    confidence.push_back(sure);
    parents.push_back(parent);
  }
  void cut(std::size_t length);
  void clear() { cut(0); }
  // The text went on with this token: what followed it is left, or nothing.
  void follow(TokenId token);
  // Keeps the tokens for which keep(place) is true, and of these those whose parents are kept.
  template <class Keep>
  void keep_if(Keep keep) {
    std::int32_t left = 0;
    for (std::int32_t i = 0; i < size(); ++i) {
      const std::int32_t parent = parents[static_cast<std::size_t>(i)];
      const std::int32_t now = parent < 0 ? -1 : places_[static_cast<std::size_t>(parent)];
      const bool kept = (parent < 0 || now >= 0) && keep(i);
      places_.push_back(kept ? left : -1);
      if (kept) move_token(i, left++, now);
    }
    places_.clear();
    cut(static_cast<std::size_t>(left));
  }
  // Whether another token stands before this one and follows the same.
  bool stands_beside(std::int32_t place) const;

 private:
  void move_token(std::int32_t from, std::int32_t to, std::int32_t parent) {
    tokens[static_cast<std::size_t>(to)] = tokens[static_cast<std::size_t>(from)];
    confidence[static_cast<std::size_t>(to)] = confidence[static_cast<std::size_t>(from)];
    parents[static_cast<std::size_t>(to)] = parent;
  }

  std::vector<std::int32_t> places_;  // only while tokens are left out: where each is now; -1: it is not
};

}  // namespace kvasir
