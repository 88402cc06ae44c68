#include "text/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/error.h"
#include "random_text.h"
#include "support/growth.h"
#include "text/detokenizer.h"
#include "text_test_util.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<TokenId>;
using Specials = Tokenizer::Specials;
using SkipSpecials = Tokenizer::SkipSpecials;

// Every case of a fixture: {"text", "ids" with what the post-processor adds, "ids_no_special" without}.
void check_cases(const Tokenizer& tokenizer, const Json& cases, const std::string& name) {
  for (const Json& one : cases) {
    const std::string text = one["text"];
    SCOPED_TRACE(name + ": " + one["text"].dump());
    const Ids ids = tokenizer.encode(text, Specials::kParse);
    EXPECT_EQ(ids, one["ids_no_special"].get<Ids>());
    EXPECT_EQ(tokenizer.encode_document(text, Specials::kParse), one["ids"].get<Ids>());
  }
}

TEST(Tokenizer, AgreesWithHuggingFaceOnEveryFixture) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("hf_") || entry.path().extension() != ".json") continue;
    ++files;
    const Json fixture = read_json(entry.path());
    const Tokenizer tokenizer = Tokenizer::from_json(fixture["tokenizer"].dump(), name);
    check_cases(tokenizer, fixture["cases"], name);
    const bool keeps_text = fixture["tokenizer"]["normalizer"].is_null() && name.find("prefix") == std::string::npos;
    for (const Json& one : fixture["cases"]) {
      const std::string text = one["text"];
      if (!keeps_text) continue;
      EXPECT_EQ(tokenizer.decode(one["ids_no_special"].get<Ids>(), SkipSpecials::kKeep), text) << name;
    }
  }
  if (files == 0) GTEST_SKIP() << "no fixtures of Hugging Face tokenizers";
}

TEST(Tokenizer, AgreesWithHuggingFaceOnTheShippedModel) {
  const Tokenizer tokenizer = Tokenizer::load(tales());
  check_cases(tokenizer, read_json(fixtures() / "tales_cases.json")["cases"], "tales");
  EXPECT_EQ(tokenizer.vocab_size(), 8192);
  EXPECT_EQ(tokenizer.bos_token(), "<|endoftext|>");
  EXPECT_EQ(tokenizer.eos_token(), "<|endoftext|>");
  ASSERT_TRUE(tokenizer.chat_template().has_value());
  EXPECT_NE(tokenizer.chat_template()->find("<|assistant|>"), std::string::npos);
  EXPECT_NE(tokenizer.chat_template_where().find("chat_template.jinja"), std::string::npos);
}

TEST(Tokenizer, AgreesWithTheJavaScriptLibraryOnAddedTokensAndSplits) {
  const Json fixture = read_json(fixtures() / "js_cases.json");
  for (const Json& group : fixture["groups"]) {
    const std::string name = group["name"];
    Json json = read_json(fixtures() / group["base"].get<std::string>())["tokenizer"];
    for (const auto& [pointer, value] : group["changes"].items()) json[Json::json_pointer(pointer)] = value;
    check_cases(Tokenizer::from_json(json.dump(), name), group["cases"], name);
  }
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  const Tokenizer tokenizer = make(small_tokenizer_json());
  EXPECT_EQ(tokenizer.encode("hello", Specials::kParse), (Ids{258, 'o'}));
  EXPECT_EQ(tokenizer.encode(" hello", Specials::kParse), (Ids{259, 'o'}));
  EXPECT_EQ(tokenizer.encode("aaa", Specials::kParse), (Ids{260, 'a'}));
  EXPECT_EQ(tokenizer.encode("", Specials::kParse), Ids{});
}

TEST(Tokenizer, LongWordsMergeLikeShortOnes) {
  const Tokenizer tokenizer = make(small_tokenizer_json());
  // 401 letters: the queue. The scan gives the same on each half, where the cut does not matter.
  const Ids long_word = tokenizer.encode(std::string(401, 'a'), Specials::kParse);
  EXPECT_EQ(long_word.size(), 201U);
  EXPECT_EQ(long_word.front(), 260);
  EXPECT_EQ(long_word.back(), 'a');
}

TEST(Tokenizer, AMegabyteInOneWordTakesNoQuadraticTime) {
  const Tokenizer tokenizer = Tokenizer::load(tales());
  const auto there_and_back = [&](size_t size) {
    for (const char* piece : {"a", " ", "\n", " \n", "\xff", "é", "'s"}) {
      std::string text;
      while (text.size() < size) text += piece;
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Specials::kParse), SkipSpecials::kKeep), text);
    }
  };
  EXPECT_LT(testing::growth_of_eightfold(there_and_back, 1 << 17), 24);
}

TEST(Tokenizer, SpecialTokensInPlainTextAreText) {
  const Tokenizer tokenizer = make(small_tokenizer_json());
  EXPECT_EQ(tokenizer.encode("<s>", Specials::kParse), Ids{261});
  EXPECT_EQ(tokenizer.encode("<s>", Specials::kPlain), (Ids{'<', 's', '>'}));
  EXPECT_EQ(tokenizer.decode(Ids{261, 'x', 262}, SkipSpecials::kSkip), "x");
  EXPECT_EQ(tokenizer.decode(Ids{261, 'x', 262}, SkipSpecials::kKeep), "<s>x<end>");
}

TEST(Tokenizer, PiecesMergeAcrossTheirBordersButSpecialTokensDoNot) {
  const Tokenizer tokenizer = make(small_tokenizer_json());
  using Piece = Tokenizer::TextPiece;
  const auto encode = [&](std::vector<Piece> pieces) { return tokenizer.encode(pieces); };
  EXPECT_EQ(encode({{"he", Specials::kParse}, {"llo", Specials::kPlain}}), (Ids{258, 'o'}));
  EXPECT_EQ(encode({{"<s>", Specials::kParse}, {"<s>", Specials::kPlain}, {"<end>", Specials::kParse}}),
            (Ids{261, '<', 's', '>', 262}));
  // Neither half of a token may come from the user.
  EXPECT_EQ(encode({{"<", Specials::kPlain}, {"s>", Specials::kParse}}), (Ids{'<', 's', '>'}));
  EXPECT_EQ(encode({{"<s", Specials::kParse}, {">", Specials::kPlain}}), (Ids{'<', 's', '>'}));
  EXPECT_EQ(encode({{"<", Specials::kPlain}, {"<s>", Specials::kParse}}), (Ids{'<', 261}));
  EXPECT_EQ(
      encode({{"", Specials::kPlain}, {"<s", Specials::kParse}, {"", Specials::kPlain}, {">", Specials::kParse}}),
      Ids{261});
}

TEST(Tokenizer, AUserCannotHideATokenOfTheTemplate) {
  Json json = small_tokenizer_json();
  json["added_tokens"].push_back({{"id", 263}, {"content", "<s><end>"}, {"special", true}});
  const Tokenizer tokenizer = make(json);
  const std::vector<Tokenizer::TextPiece> pieces{{"<s>", Specials::kPlain}, {"<end>", Specials::kParse}};
  EXPECT_EQ(tokenizer.encode(pieces), (Ids{'<', 's', '>', 262}));
}

TEST(Tokenizer, OriginSurvivesNormalization) {
  Json json = small_tokenizer_json();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"][0]["normalized"] = true;
  const Tokenizer tokenizer = make(json);
  // The accents move the offsets of what follows them.
  const std::vector<Tokenizer::TextPiece> pieces{{"e\xCC\x81<s>", Specials::kPlain},
                                                 {"e\xCC\x81<s>", Specials::kParse},
                                                 {"e\xCC\x81", Specials::kPlain},
                                                 {"<s>", Specials::kParse}};
  EXPECT_EQ(tokenizer.encode(pieces), (Ids{0xC3, 0xA9, '<', 's', '>', 0xC3, 0xA9, 261, 0xC3, 0xA9, 261}));
}

TEST(Tokenizer, AnAccentOnABorderBelongsToTheUser) {
  Json json = small_tokenizer_json();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"][0] = {{"id", 261}, {"content", "<é>"}, {"special", true}, {"normalized", true}};
  const Tokenizer tokenizer = make(json);
  const std::vector<Tokenizer::TextPiece> one{{"<e\xCC\x81>", Specials::kParse}};
  EXPECT_EQ(tokenizer.encode(one), Ids{261});
  const std::vector<Tokenizer::TextPiece> torn{
      {"<e", Specials::kParse}, {"\xCC\x81", Specials::kPlain}, {">", Specials::kParse}};
  EXPECT_EQ(tokenizer.encode(torn), (Ids{'<', 0xC3, 0xA9, '>'}));
}

TEST(Tokenizer, SingleWordsStandAlone) {
  Json json = small_tokenizer_json();
  json["added_tokens"][0] = {{"id", 261}, {"content", "he"}, {"single_word", true}};
  json["model"]["vocab"].erase("he");
  json["model"]["merges"] = Json::array();
  const Tokenizer tokenizer = make(json);
  EXPECT_EQ(tokenizer.encode("he", Specials::kPlain), Ids{261});
  EXPECT_EQ(tokenizer.encode("-he.", Specials::kPlain), (Ids{'-', 261, '.'}));
  EXPECT_EQ(tokenizer.encode("\xFFhe\xFF", Specials::kPlain), (Ids{0xFF, 261, 0xFF}));
  for (const std::string text : {"she", "hex", "_he", "he1", "h\u00E9he", "he\u0301"}) {
    const Ids ids = tokenizer.encode(text, Specials::kPlain);
    EXPECT_EQ(std::ranges::count(ids, 261), 0) << text;
  }
}

TEST(Tokenizer, NamesBytesAndIds) {
  const Tokenizer tokenizer = make(small_tokenizer_json());
  EXPECT_EQ(tokenizer.id_of("<s>"), 261);
  EXPECT_EQ(tokenizer.id_of("Ġhell"), 259);
  EXPECT_EQ(tokenizer.id_of("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.bytes_of(259), " hell");
  EXPECT_EQ(tokenizer.bytes_of(0xE9), "\xE9");
  EXPECT_EQ(tokenizer.bytes_of(-1), "");
  EXPECT_EQ(tokenizer.bytes_of(1 << 30), "");
  EXPECT_TRUE(tokenizer.is_special(262));
  EXPECT_FALSE(tokenizer.is_special(256));
  EXPECT_FALSE(tokenizer.is_special(-5));
  EXPECT_EQ(tokenizer.vocab_size(), 263);
}

TEST(Tokenizer, CanBeSharedByThreads) {
  const Tokenizer tokenizer = Tokenizer::load(tales());
  const std::string text = "Once upon a time, there was a 12345 dragon <|end|> who didn't… 中文 😀";
  const Ids expected = tokenizer.encode(text, Specials::kParse);
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  for (bool& mine : same) {
    threads.emplace_back([&] {
      mine = true;
      for (int i = 0; i < 200; ++i) mine = mine && tokenizer.encode(text, Specials::kParse) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool mine : same) EXPECT_TRUE(mine);
}

// Any bytes: often text, often broken, sometimes special tokens.
rc::Gen<std::string> any_bytes() {
  const auto piece =
      rc::gen::oneOf(rc::gen::container<std::string>(rc::gen::arbitrary<char>()),
                     rc::gen::element<std::string>("hello", " ", "  ", "\n", "\r\n", "<|end|>", "<s>", "é", "中文",
                                                   "😀", "\xE4\xB8", "\xF0\x9F", "\xC0\x80", "\xED\xA0\x80", "1234",
                                                   "'ll", "\xC2\xA0", "\xE3\x80\x80", "\xC2\x85"));
  return joined(piece);
}

TEST(Tokenizer, DecodeIsTheInverseOfEncodeForAnyBytes) {
  const Tokenizer shipped = Tokenizer::load(tales());
  const Tokenizer small = make(small_tokenizer_json());
  EXPECT_TRUE(rc::check("decode(encode(x)) == x", [&] {
    const std::string text = *any_bytes();
    for (const Tokenizer& tokenizer : {shipped, small}) {
      for (const Specials specials : {Specials::kParse, Specials::kPlain}) {
        RC_ASSERT(tokenizer.decode(tokenizer.encode(text, specials), SkipSpecials::kKeep) == text);
      }
    }
  }));
}

TEST(Tokenizer, PlainTextNeverHoldsSpecialTokens) {
  const Tokenizer tokenizer = Tokenizer::load(tales());
  EXPECT_TRUE(rc::check("kPlain gives no special token", [&] {
    for (const TokenId id : tokenizer.encode(*any_bytes(), Specials::kPlain)) RC_ASSERT(!tokenizer.is_special(id));
  }));
}

TEST(Tokenizer, CuttingIntoPiecesOfOneKindChangesNothing) {
  const Tokenizer tokenizer = Tokenizer::load(tales());
  EXPECT_TRUE(rc::check("pieces of one kind are one text", [&] {
    const std::string text = *any_bytes();
    const size_t cut = *rc::gen::inRange<size_t>(0, text.size() + 1);
    for (const Specials specials : {Specials::kParse, Specials::kPlain}) {
      const std::vector<Tokenizer::TextPiece> pieces{{std::string_view(text).substr(0, cut), specials},
                                                     {std::string_view(text).substr(cut), specials}};
      RC_ASSERT(tokenizer.encode(pieces) == tokenizer.encode(text, specials));
    }
  }));
}

}  // namespace
}  // namespace kvasir
