// Whatever the pieces a text comes in, what is given out is the text up to the first stop string.
#include "server/answer/stop_strings.h"

#include <gtest/gtest.h>

namespace kvasir::testing {
namespace {

// The contract, said plainly: of all the places where a stop string is complete, the first; there, the longest.
std::string cut(const std::string& text, const std::vector<std::string>& stops, std::string& met) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop) && stop.size() > longest) longest = stop.size();
    }
    if (longest == 0) continue;
    met = text.substr(end - longest, longest);
    return text.substr(0, end - longest);
  }
  met.clear();
  return text;
}

void expect_same_for_every_split(const std::string& text, const std::vector<std::string>& stops) {
  std::string met;
  const std::string expected = cut(text, stops, met);
  const unsigned splits = text.empty() ? 1U : 1U << (text.size() - 1);
  for (unsigned split = 0; split < splits; ++split) {
    StopStrings matcher(stops);
    std::string out;
    std::string piece;
    for (size_t i = 0; i < text.size(); ++i) {
      piece += text[i];
      if (i + 1 < text.size() && (split >> i & 1U) == 0) continue;
      out += matcher.push(piece);
      piece.clear();
    }
    out += matcher.finish();
    ASSERT_EQ(out, expected) << text << " split " << split;
    ASSERT_EQ(matcher.matched().value_or(""), met) << text << " split " << split;
  }
}

TEST(StopStrings, EveryTextInEverySplit) {
  const std::vector<std::vector<std::string>> sets{
      {}, {"a"}, {"ab"}, {"aab"}, {"aba", "b"}, {"abab", "bb"}, {"b", "ab"}, {"abba", "bab", "aaa"}, {"aaaa", "aab"}};
  for (const auto& stops : sets) {
    for (size_t size = 0; size <= 8; ++size) {
      for (unsigned bits = 0; bits < 1U << size; ++bits) {
        std::string text;
        for (size_t i = 0; i < size; ++i) text += (bits >> i & 1U) == 0 ? 'a' : 'b';
        expect_same_for_every_split(text, stops);
      }
    }
  }
}

TEST(StopStrings, GivesOutAtOnceWhatCannotBecomeAStop) {
  StopStrings matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.push("Hello"), "Hello");
  EXPECT_EQ(matcher.push(" there\n"), " there");
  EXPECT_EQ(matcher.push("\nUs"), "");
  EXPECT_EQ(matcher.push("ual"), "\n\nUsual");
  EXPECT_EQ(matcher.push(" end\n\nUser: more"), " end");
  EXPECT_EQ(matcher.matched(), "\n\nUser:");
  EXPECT_EQ(matcher.push("never"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStrings, WorksOnBytesOfLongCharacters) {
  StopStrings matcher({"\xE2\x82\xAC"});  // the euro sign
  EXPECT_EQ(matcher.push("5 \xE2\x82"), "5 ");
  EXPECT_EQ(matcher.push("\xAC!"), "");
  EXPECT_TRUE(matcher.matched());
}

}  // namespace
}  // namespace kvasir::testing
