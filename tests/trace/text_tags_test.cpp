#include "trace/text_tags.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "base/mix.h"

namespace kvasir {
namespace {

std::vector<TokenId> some_text(std::int64_t tokens, std::uint64_t seed) {
  std::vector<TokenId> out;
  for (std::int64_t i = 0; i < tokens; ++i) {
    out.push_back(static_cast<TokenId>(mixed(seed, static_cast<std::uint64_t>(i), 1) % 50000));
  }
  return out;
}

std::vector<TokenId> tags_in(const std::string& text) {
  std::vector<TokenId> tags;
  EXPECT_TRUE(read_tags(text, tags));
  return tags;
}

// The vector of the paper: fifteen bytes 0 … 14 under the key 0 … 15, the last byte being the length.
TEST(SipHash, IsThatOfItsAuthors) {
  SipHash hash(0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL);
  hash.add(0x0706050403020100ULL);
  hash.add(0x0f0e0d0c0b0a0908ULL);
  EXPECT_EQ(hash.finish(), 0xa129ca6149be45e5ULL);
  EXPECT_EQ(hash.finish(), 0xa129ca6149be45e5ULL);  // asking changes nothing
}

TEST(TextTags, AreTwoCharactersATokenAndReadBack) {
  const TextTags tags(Key256{{7}});
  const std::string text = tags.of(some_text(500, 1), "space");
  EXPECT_EQ(text.size(), 1000U);
  const std::vector<TokenId> read = tags_in(text);
  ASSERT_EQ(read.size(), 500U);
  EXPECT_GE(*std::ranges::min_element(read), 0);
  EXPECT_LT(*std::ranges::max_element(read), kTags);
  EXPECT_GT(std::set<TokenId>(read.begin(), read.end()).size(), 400U);  // of 4,096 at random
}

TEST(TextTags, SayHowFarTextsBeginAlike) {
  const TextTags tags(Key256{{7}});
  for (const size_t common : {0U, 1U, 15U, 16U, 17U, 100U}) {
    std::vector<TokenId> a = some_text(200, 1);
    std::vector<TokenId> b = some_text(200, 2);
    std::copy_n(a.begin(), common, b.begin());
    const std::vector<TokenId> of_a = tags_in(tags.of(a, "space"));
    const std::vector<TokenId> of_b = tags_in(tags.of(b, "space"));
    EXPECT_EQ(static_cast<size_t>(std::ranges::mismatch(of_a, of_b).in1 - of_a.begin()), common);
    // What comes again behind the place where they part is not recognised.
    std::vector<TokenId> c = a;
    c[common] += 1;
    const std::vector<TokenId> of_c = tags_in(tags.of(c, "space"));
    EXPECT_LT(
        std::ranges::count_if(std::views::iota(common, size_t{200}), [&](size_t i) { return of_a[i] == of_c[i]; }),
        3);
  }
}

TEST(TextTags, AreOthersUnderAnotherSecretAndInAnotherSpace) {
  const std::vector<TokenId> text = some_text(100, 1);
  const std::string plain = TextTags(Key256{{7}}).of(text, "space");
  EXPECT_EQ(plain, TextTags(Key256{{7}}).of(text, "space"));
  for (const std::string& other :
       {TextTags(Key256{{8}}).of(text, "space"), TextTags(Key256{{7}}).of(text, "spaces")}) {
    const std::vector<TokenId> a = tags_in(plain);
    const std::vector<TokenId> b = tags_in(other);
    EXPECT_LT(std::ranges::count_if(std::views::iota(size_t{0}, a.size()), [&](size_t i) { return a[i] == b[i]; }),
              3);
  }
}

TEST(TextTags, WhatIsNoneIsRefused) {
  std::vector<TokenId> tags;
  EXPECT_FALSE(read_tags("abc", tags));
  EXPECT_FALSE(read_tags("ab+d", tags));
  EXPECT_FALSE(read_tags("ab\xff\xff", tags));
  EXPECT_TRUE(read_tags("", tags));
}

}  // namespace
}  // namespace kvasir
