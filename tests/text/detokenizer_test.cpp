#include "text/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "text_test_util.h"

namespace kvasir {
namespace {

using Ids = std::vector<TokenId>;
using SkipSpecials = Tokenizer::SkipSpecials;

// One token per byte, so that every way to cut a character can be pushed.
class DetokenizerTest : public testing::Test {
 protected:
  Ids bytes(std::string_view text) const {
    Ids ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  const Tokenizer tokenizer_ = make(small_tokenizer_json());
};

TEST_F(DetokenizerTest, HoldsBackUntilACharacterIsWhole) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.push(0x9F), "");
  EXPECT_EQ(detokenizer.push(0x98), "");
  EXPECT_EQ(detokenizer.push(0x80), "😀");
  EXPECT_EQ(detokenizer.push('a'), "a");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST_F(DetokenizerTest, ReplacesWhatIsInvalid) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.push(0xE4), "");
  EXPECT_EQ(detokenizer.push(0xB8), "");
  EXPECT_EQ(detokenizer.push('x'), "\uFFFDx");  // one for both bytes
  EXPECT_EQ(detokenizer.push(0xFF), "\uFFFD");
  EXPECT_EQ(detokenizer.push(0xC3), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST_F(DetokenizerTest, ReplacesAsManyTimesAsRustAndPythonDo) {
  EXPECT_EQ(to_valid_utf8("\xF0\x90\x80"
                          "A"),
            "\uFFFD"
            "A");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(to_valid_utf8("\xC0\x80"), "\uFFFD\uFFFD");            // an overlong form
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                          "A"),
            "\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(to_valid_utf8("é"), "é");
}

TEST_F(DetokenizerTest, SkipsOrKeepsSpecialTokens) {
  EXPECT_EQ(detokenize(tokenizer_, Ids{261, 'a', 262}, SkipSpecials::kSkip), "a");
  EXPECT_EQ(detokenize(tokenizer_, Ids{261, 'a', 262}, SkipSpecials::kKeep), "<s>a<end>");
  Detokenizer keeping(tokenizer_, SkipSpecials::kKeep);
  EXPECT_EQ(keeping.push(261), "<s>");
  Detokenizer skipping(tokenizer_);
  EXPECT_EQ(skipping.push(0xC3), "");
  EXPECT_EQ(skipping.push(261), "");
  EXPECT_EQ(skipping.push(0xA9), "é");
  EXPECT_EQ(skipping.push(-7), "");
}

TEST_F(DetokenizerTest, StreamingGivesWhatAllAtOnceGives) {
  EXPECT_TRUE(rc::check("pushed chunks are valid and add up", [&] {
    const auto token =
        rc::gen::oneOf(rc::gen::inRange<TokenId>(0, 264), rc::gen::inRange<TokenId>(0x80, 0xFF),
                       rc::gen::element<TokenId>(0xE4, 0xB8, 0xAD, 0xF0, 0x9F, 0x98, 0x80, 0xC3, 0xA9));
    const Ids ids = *rc::gen::container<Ids>(token);
    for (const SkipSpecials specials : {SkipSpecials::kSkip, SkipSpecials::kKeep}) {
      Detokenizer detokenizer(tokenizer_, specials);
      std::string all;
      for (const TokenId id : ids) {
        const std::string chunk = detokenizer.push(id);
        RC_ASSERT(is_valid_utf8(chunk));
        all += chunk;
      }
      all += detokenizer.finish();
      RC_ASSERT(is_valid_utf8(all));
      RC_ASSERT(all == detokenize(tokenizer_, ids, specials));
    }
  }));
}

TEST_F(DetokenizerTest, ValidTextPassesUnchanged) {
  const std::string text = "a é 中 😀 \xEF\xBF\xBD z";
  EXPECT_EQ(detokenize(tokenizer_, bytes(text), SkipSpecials::kSkip), text);
}

}  // namespace
}  // namespace kvasir
