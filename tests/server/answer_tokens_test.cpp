// Tokens that wait for their text to be given out.
#include "server/answer/answer_tokens.h"

#include <gtest/gtest.h>

namespace kvasir::testing {
namespace {

AnswerToken token(const char* bytes) { return {{bytes, -1.0F}, {}, 0}; }

std::string names(const std::vector<AnswerToken>& tokens) {
  std::string out;
  for (const AnswerToken& one : tokens) out += one.chosen.bytes + "@" + std::to_string(one.offset) + " ";
  return out;
}

TEST(PendingTokens, ATokenComesWithItsFirstText) {
  PendingTokens pending;
  pending.push(token("ab"), "ab");
  pending.push(token("cd"), "cd");
  EXPECT_EQ(names(pending.take("")), "");
  EXPECT_EQ(names(pending.take("a")), "ab@0 ");
  EXPECT_EQ(names(pending.take("b")), "");
  EXPECT_EQ(names(pending.take("c")), "cd@2 ");
  EXPECT_EQ(names(pending.take_all()), "");
}

TEST(PendingTokens, PiecesOfACharacterComeWithTheCharacter) {
  PendingTokens pending;
  pending.push(token("x\xc3"), "x");
  EXPECT_EQ(names(pending.take("x")), "x\xc3@0 ");
  pending.push(token("\xa9"), "é");
  pending.push(token("\xf0"), "");
  pending.push(token("\x9f"), "");
  EXPECT_EQ(names(pending.take("é")), "\xa9@1 ");
  pending.push(token("\x98\x80!"), "😀!");
  EXPECT_EQ(names(pending.take("😀!")), "\xf0@2 \x9f@2 \x98\x80!@2 ");
}

TEST(PendingTokens, WhatWasCutOffNeverComes) {
  PendingTokens pending;
  pending.push(token("one "), "one ");
  pending.push(token("two"), "two");
  pending.push(token("three"), "three");
  EXPECT_EQ(names(pending.take("one t")), "one @0 two@4 ");  // a stop string began at "wo"
}

TEST(PendingTokens, WithoutTextTheyComeAtTheEnd) {
  PendingTokens pending;
  pending.push(token("<|special|>"), "");
  EXPECT_EQ(names(pending.take("")), "");
  EXPECT_EQ(names(pending.take_all()), "<|special|>@0 ");
}

}  // namespace
}  // namespace kvasir::testing
