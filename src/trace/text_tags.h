// What a trace says of a text instead of the text: a tag for each token, of all tokens up to it, under a secret that
// goes with the process that wrote it. Two texts have the same tags as far as they begin alike, but for one chance in
// 4,096 at each token, and nothing else can be told from them: without the secret no text can be tried.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"

namespace kvasir {

// SipHash-2-4 of words that come one after the other; finish() may be asked at any of them, and changes nothing.
class SipHash {
 public:
  SipHash(std::uint64_t key0, std::uint64_t key1);
  void add(std::uint64_t word);
  std::uint64_t finish() const;

 private:
  void round();

  std::uint64_t a_, b_, c_, d_;
};

inline constexpr int kTagBits = 12;  // two characters of text
inline constexpr TokenId kTags = TokenId{1} << kTagBits;

class TextTags {
 public:
  explicit TextTags(const Key256& secret) : secret_(secret) {}

  // Two characters a token. `space`: what the text's K and V depend on besides, and whose it is; texts of two spaces
  // have nothing in common.
  std::string of(std::span<const TokenId> tokens, std::string_view space) const;

 private:
  Key256 secret_;
};

// The tags as numbers below kTags. False: it is no such text.
bool read_tags(std::string_view text, std::vector<TokenId>& tags);

}  // namespace kvasir
