// Where tokens stood before: a text that grows, and the places in it behind which its newest tokens, or others, were
// seen. Of a long text the newest tokens are kept.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/draft/drafter.h"

namespace kvasir {

class TokenIndex {
 public:
  static constexpr TokenId kEnd = -1;  // of one of several texts: no match goes past it

  // Keeps at most so many tokens, a power of two.
  explicit TokenIndex(std::uint32_t most) : most_(most) {}

  void append(TokenId token);
  void append(std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) append(token);
  }

  // What followed the last of these tokens where as many of them as possible stood before: at each place what most of
  // the newest such texts agree on. Where they disagree, `branches` of the ways they go on at most are followed, the
  // main one for `most` tokens. At least a run of kRuns tokens must have stood there.
  void continue_text(std::span<const TokenId> tokens, std::int64_t most, Draft& draft, int branches = 1) const;

  // The place behind the longest match nearest to `near`, and how long that is; {-1, 0}: there is none. Of a text
  // that is kept whole.
  struct Match {
    std::int64_t end = -1;
    int length = 0;
  };
  Match nearest(std::span<const TokenId> tokens, std::int64_t near) const;

  TokenId at(std::int64_t place) const { return text_[slot(place)]; }
  std::int64_t size() const { return end_; }  // tokens that were appended
  std::size_t bytes() const { return text_.size() * (sizeof(TokenId) + kRuns.size() * 2 * sizeof(std::uint32_t)); }

 private:
  static constexpr std::array<int, 2> kRuns{4, 2};  // tokens that are looked up together: long ones first
  static constexpr int kMostPlaces = 16;            // that one lookup compares
  static constexpr int kLongestMatch = 64;          // longer ones say no more

  // Places whose run has the same hash: the newest, and from each the one before.
  struct Chain {
    std::vector<std::uint32_t> newest;    // [hash]: place + 1; 0: none
    std::vector<std::uint32_t> previous;  // [place]
  };
  struct Places {
    std::array<std::int64_t, kMostPlaces> ends{};
    int count = 0;
    int length = 0;  // tokens that match
  };
  // Places that go on with the same token, behind one of a draft.
  struct Way {
    Places places;
    std::int32_t parent = -1;
    float share = 1;  // of the places before that token
  };

  std::size_t slot(std::int64_t place) const { return static_cast<std::size_t>(place) & (text_.size() - 1); }
  bool kept(std::int64_t place) const { return place >= 0 && place < end_ && place >= end_ - std::ssize(text_); }
  void grow();
  void link(std::int64_t place);
  int match_at(std::span<const TokenId> tokens, std::int64_t end) const;
  template <class Visit>
  void each_match(std::span<const TokenId> tokens, Visit visit) const;
  Places longest(std::span<const TokenId> tokens) const;
  Places places_of(TokenId token, const Places& places) const;
  void follow(Way way, std::int64_t most, int branches, Draft& draft, std::vector<Way>& others) const;

  std::uint32_t most_;
  std::int64_t end_ = 0;
  std::vector<TokenId> text_;  // a ring: a power of two
  std::array<Chain, kRuns.size()> chains_;
};

}  // namespace kvasir
