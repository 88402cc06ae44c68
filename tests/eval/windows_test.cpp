#include "eval/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace kvasir::testing {
namespace {

std::vector<TokenId> counting(int n) {
  std::vector<TokenId> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(TextWindows, EveryTokenIsJudgedOnceAndInTheFirstWindowThatHasIt) {
  for (const int size : {2, 9, 10, 11, 57, 100}) {
    for (const std::int64_t stride : {0, 1, 3, 8}) {
      for (const auto& opening : {std::vector<TokenId>{}, std::vector<TokenId>{-7, -8}}) {
        const TextWindows windows(counting(size), {10, stride, opening});
        std::vector<TokenId> judged;
        for (std::int64_t i = 0; i < windows.count(); ++i) {
          const TextWindow window = windows.at(i);
          ASSERT_LE(window.tokens.size(), 10U);
          ASSERT_TRUE(std::equal(opening.begin(), opening.end(), window.tokens.begin()));
          judged.insert(judged.end(), window.tokens.begin() + window.first_judged, window.tokens.end());
        }
        std::vector<TokenId> expected = counting(size);
        // Without an opening nothing foretells the first token of a window that overlaps none.
        if (opening.empty()) std::erase_if(expected, [&](TokenId t) { return stride == 0 ? t % 10 == 0 : t == 0; });
        EXPECT_EQ(judged, expected) << size << ' ' << stride << ' ' << opening.size();
        EXPECT_EQ(windows.judged(), std::ssize(expected));
      }
    }
  }
}

TEST(TextWindows, WhatCannotBeCutIsRefused) {
  EXPECT_THROW(TextWindows(counting(100), {1, 0, {}}), Error);
  EXPECT_THROW(TextWindows(counting(100), {2, 0, {5}}), Error);
  EXPECT_THROW(TextWindows(counting(100), {10, 11, {}}), Error);
  EXPECT_THROW(TextWindows(counting(100), {10, 10, {5}}), Error);
  EXPECT_THROW(TextWindows(counting(100), {10, -1, {}}), Error);
  EXPECT_THROW(TextWindows(counting(1), {10, 0, {}}), Error);
  EXPECT_THROW(TextWindows({}, {10, 0, {5}}), Error);
  EXPECT_EQ(TextWindows(counting(1), {10, 0, {5}}).judged(), 1);
}

}  // namespace
}  // namespace kvasir::testing
