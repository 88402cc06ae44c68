#include "grammar/token_mask.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <thread>

#include "../text/pieces_fixture.h"
#include "base/error.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

// The mask, token by token.
TokenSet brute_force(const Vocabulary& vocabulary, const Matcher& matcher) {
  TokenSet out(vocabulary.size());
  for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary.size(); ++id) {
    const std::string& bytes = vocabulary.bytes_of(id);
    const bool allowed = vocabulary.is_end(id) ? matcher.complete() : !bytes.empty() && matcher.can_accept(bytes);
    if (allowed) out.insert(id);
  }
  return out;
}

TEST(TokenMask, IsWhatTryingEveryTokenGives) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    SchemaMaker random(seed);
    const Json schema = random.schema();
    TokenMasker masker(random_vocabulary(random));
    Matcher matcher(compile_json_schema(schema.dump()));
    std::string text;
    for (int steps = 0; steps < 40; ++steps) {
      if (*masker.mask(matcher) != brute_force(masker.vocabulary(), matcher)) RC_FAIL(schema.dump() + "\n" + text);
      if (!walk_one(masker, random, Pace::kAny, matcher, text)) break;
    }
  }));
}

void expect_what_trying_gives(TokenMasker& masker, SchemaMaker random) {
  for (int round = 0; round < 25; ++round) {
    const Json schema = random.schema();
    Matcher matcher(compile_json_schema(schema.dump()));
    std::string text;
    for (int steps = 0; steps < 25; ++steps) {
      ASSERT_EQ(*masker.mask(matcher), brute_force(masker.vocabulary(), matcher)) << schema << "\n" << text;
      if (!walk_one(masker, random, Pace::kAny, matcher, text)) break;
    }
  }
}

TEST(TokenMask, IsWhatTryingEveryTokenOfTheShippedVocabularyGives) {
  TokenMasker masker(shipped_vocabulary());
  expect_what_trying_gives(masker, SchemaMaker(7));
}

// In SentencePiece a byte may be a token beside the piece of the same text, a character may be several byte tokens,
// and pieces begin with spaces.
TEST(TokenMask, IsWhatTryingEveryTokenOfASentencePieceVocabularyGives) {
  const Tokenizer tokenizer = make_tokenizer(pieces_vocab());
  TokenMasker masker(vocabulary_of(tokenizer));
  expect_what_trying_gives(masker, SchemaMaker(11));
}

TEST(TokenMask, EveryTokenOfAnEncodedAnswerIsAllowed) {
  GgufVocab vocab = pieces_vocab();
  vocab.add_space_prefix = false;  // an answer goes on after its prompt
  const Tokenizer tokenizer = make_tokenizer(vocab);
  TokenMasker masker(vocabulary_of(tokenizer));
  const auto grammar = compile_json_schema(
      R"({"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}},"required":["name","n"]})");
  const std::string answer = "{\"name\": \"le café 😀 日本語\", \"n\": 12}";
  Matcher matcher(grammar);
  for (const TokenId token : tokenizer.encode(answer, Tokenizer::Specials::kPlain)) {
    ASSERT_TRUE(masker.mask(matcher)->contains(token)) << tokenizer.bytes_of(token);
    EXPECT_FALSE(masker.mask(matcher)->contains(2)) << "</s> within the answer";
    ASSERT_TRUE(matcher.accept(tokenizer.bytes_of(token)));
  }
  EXPECT_TRUE(masker.mask(matcher)->contains(2));
}

// Strings near their length limit use other tiers than those far from it.
TEST(TokenMask, IsExactAtEveryLengthOfALimitedString) {
  const auto vocabulary =
      byte_vocabulary({"ab", "abcd", "abcde", std::string(16, 'x'), std::string(17, 'x'),
                       "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", "a\"", "aaaa\"", "\xE6\xBC\xA2\xE6", "\\n\\n"});
  TokenMasker masker(vocabulary);
  Matcher matcher(compile_json_schema(R"({"type":"string","minLength":3,"maxLength":25})"));
  ASSERT_TRUE(matcher.accept("\""));
  for (int length = 0; length <= 25; ++length) {
    ASSERT_EQ(*masker.mask(matcher), brute_force(*vocabulary, matcher)) << length;
    ASSERT_EQ(matcher.accept("\xC3\xA9"), length < 25);
  }
}

TEST(TokenMask, EndsAreAllowedWhereTheTextIsComplete) {
  const auto vocabulary = byte_vocabulary();
  const TokenId end = vocabulary->ends().front();
  TokenMasker masker(vocabulary);
  Matcher matcher(compile_json_schema(R"({"type":"integer"})"));
  EXPECT_FALSE(masker.mask(matcher)->contains(end));
  ASSERT_TRUE(matcher.accept("12"));
  EXPECT_TRUE(masker.mask(matcher)->contains(end));
  EXPECT_TRUE(masker.mask(matcher)->contains('3'));
  EXPECT_FALSE(masker.mask(matcher)->contains('x'));
}

TEST(TokenMask, EmptyTokensAndEqualTokens) {
  const auto vocabulary = std::make_shared<const Vocabulary>(
      std::vector<std::string>{"", "1", "1", "<end>", "12", ""}, std::vector<TokenId>{3});
  TokenMasker masker(vocabulary);
  Matcher matcher(compile_json_schema(R"({"type":"integer"})"));
  const auto mask = masker.mask(matcher);
  EXPECT_EQ(mask->count(), 3U);
  EXPECT_TRUE(mask->contains(1) && mask->contains(2) && mask->contains(4));
  EXPECT_THROW(Vocabulary({"a"}, {1}), Error);
}

TEST(TokenMask, RemembersMasksOfTheSamePlaces) {
  TokenMasker masker(byte_vocabulary());
  const auto grammar = compile_json_schema(R"({"type":"array","items":{"type":"string"}})");
  Matcher one(grammar);
  ASSERT_TRUE(one.accept("[\"abc"));
  const auto mask = masker.mask(one);
  ASSERT_TRUE(one.accept("d"));
  EXPECT_EQ(masker.mask(one), mask);
  ASSERT_TRUE(one.accept("\",\""));
  EXPECT_EQ(masker.mask(one), mask);
  Matcher other(grammar);  // of another request
  ASSERT_TRUE(other.accept("[\"x"));
  EXPECT_EQ(masker.mask(other), mask);
  EXPECT_EQ(masker.counts().hits, 3U);
  EXPECT_EQ(masker.counts().misses, 1U);
}

TEST(TokenMask, ForgetsTheMasksNotUsedForLongest) {
  TokenMasker masker(byte_vocabulary(), {.cached_masks = 2});
  Matcher matcher(compile_json_schema(R"({"type":"string","maxLength":9})"));
  ASSERT_TRUE(matcher.accept("\""));
  for (int i = 0; i < 5; ++i) {
    masker.mask(matcher);
    ASSERT_TRUE(matcher.accept("x"));
  }
  EXPECT_EQ(masker.counts().misses, 5U);
}

TEST(TokenMask, TooMuchWorkIsAnError) {
  TokenMasker masker(byte_vocabulary(), {.cached_masks = 2, .work = 10});
  EXPECT_THROW(masker.mask(Matcher(any_json_object())), Error);
}

TEST(TokenMask, ServesThreadsAtOnce) {
  TokenMasker masker(shipped_vocabulary(), {.cached_masks = 16});
  const auto grammar = any_json_object();
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      SchemaMaker random(seed);
      Matcher matcher(grammar);
      std::string text;
      for (int i = 0; i < 100 && walk_one(masker, random, Pace::kAny, matcher, text); ++i) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(masker.counts().misses, 0U);
}

}  // namespace
}  // namespace kvasir::grammar::testing
