// Where tokens stood before, and how those texts went on.
#include "engine/draft/token_index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/hash.h"

namespace kvasir::testing {
namespace {

std::vector<TokenId> index_text(std::int64_t count, std::uint64_t seed, std::uint64_t vocab) {
  std::vector<TokenId> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<TokenId>(mix(seed, static_cast<std::uint64_t>(i), 0) % vocab));
  return out;
}

// By trying every place of what is kept.
int longest_match(std::span<const TokenId> text, std::span<const TokenId> tokens) {
  int best = 0;
  for (size_t end = 1; end < text.size(); ++end) {
    int length = 0;
    while (length < 64 && static_cast<size_t>(length) < std::min(end, tokens.size()) &&
           text[end - 1 - static_cast<size_t>(length)] == tokens[tokens.size() - 1 - static_cast<size_t>(length)])
      ++length;
    best = std::max(best, length);
  }
  return best;
}

// Few tokens, so that runs come again; longer than the ring, so that it goes round.
TEST(TokenIndexTest, ContinuesWhatStoodBefore) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<TokenId> text = index_text(700, seed, 5 + seed % 40);
    TokenIndex index(512);
    index.append(text);
    Draft draft;
    index.continue_text(text, 6, draft);
    const std::span<const TokenId> kept = std::span(text).last(512);
    const int longest = longest_match(kept, text);
    EXPECT_TRUE(longest >= 2 || draft.empty()) << seed;
    if (draft.empty()) continue;
    ++found;
    // What is proposed stood behind the last tokens somewhere.
    std::vector<TokenId> whole(text.end() - 2, text.end());
    whole.insert(whole.end(), draft.tokens.begin(), draft.tokens.begin() + 1);
    EXPECT_NE(std::ranges::search(kept, whole).begin(), kept.end()) << seed;
    ASSERT_EQ(draft.tokens.size(), draft.confidence.size());
    for (const float sure : draft.confidence) EXPECT_TRUE(sure > 0 && sure <= 1);
  }
  EXPECT_GT(found, 100);
}

TEST(TokenIndexTest, FollowsTheLongestMatchAndNoneAcrossTexts) {
  TokenIndex index(256);
  const std::vector<TokenId> first{1, 2, 3, 4, 5, 6, 50, 51};
  const std::vector<TokenId> second{9, 9, 3, 4, 5, 6, 60, 61, TokenIndex::kEnd, 70};
  index.append(first);
  index.append(TokenIndex::kEnd);
  index.append(second);
  Draft draft;
  index.continue_text(std::vector<TokenId>{1, 2, 3, 4, 5, 6}, 4, draft);
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{50, 51}));
  draft.clear();
  index.continue_text(std::vector<TokenId>{7, 9, 9, 3, 4, 5, 6}, 4, draft);
  EXPECT_EQ(draft.tokens, (std::vector<TokenId>{60, 61}));
  EXPECT_EQ(index.nearest(std::vector<TokenId>{3, 4, 5, 6}, 0).end, 6);
  EXPECT_EQ(index.nearest(std::vector<TokenId>{3, 4, 5, 6}, 14).end, 15);
}

TEST(TokenIndexTest, FollowsSeveralWays) {
  TokenIndex index(256);
  for (const TokenId next : {50, 60, 50}) {
    index.append(std::vector<TokenId>{1, 2, 3, 4, next, static_cast<TokenId>(next + 1), TokenIndex::kEnd});
  }
  const std::vector<TokenId> text{9, 1, 2, 3, 4};
  Draft chain;
  index.continue_text(text, 4, chain);
  EXPECT_EQ(chain.tokens, (std::vector<TokenId>{50, 51}));
  EXPECT_FALSE(chain.view().branches());
  Draft tree;
  index.continue_text(text, 4, tree, 2);
  EXPECT_EQ(tree.tokens, (std::vector<TokenId>{50, 51, 60, 61}));
  EXPECT_EQ(tree.parents, (std::vector<std::int32_t>{-1, 0, -1, 2}));
  EXPECT_NEAR(tree.confidence[0] / tree.confidence[2], 2, 1e-6);  // two of three places, and one
  EXPECT_EQ(tree.confidence[3], tree.confidence[1]);
}

// However many ways there are, a draft has so many tokens beside its main chain.
TEST(TokenIndexTest, BranchesAreBounded) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    TokenIndex index(1024);
    std::vector<TokenId> text;
    for (std::uint64_t i = 0; i < 1000; ++i) text.push_back(static_cast<TokenId>(mix(seed, i, 0) % 3));
    index.append(text);
    for (const int branches : {1, 2, 4}) {
      Draft draft;
      index.continue_text(text, 20, draft, branches);
      const std::size_t chain = draft.view().chain_length();
      EXPECT_LE(chain, 20U);
      EXPECT_LE(draft.tokens.size() - chain, static_cast<std::size_t>(branches == 1 ? 0 : kMostBranchTokens));
      for (std::int32_t parent = -1; parent < draft.size(); ++parent) {
        EXPECT_LE(std::ranges::count(draft.parents, parent), branches);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
