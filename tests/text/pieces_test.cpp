// SentencePiece vocabularies, from GGUF files and from tokenizer.json: agreement with the originals, and laws.
#include "text/pieces.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "pieces_fixture.h"
#include "random_text.h"
#include "support/growth.h"
#include "text/detokenizer.h"
#include "text/normalizer.h"
#include "text_test_util.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<TokenId>;
using Specials = Tokenizer::Specials;
using SkipSpecials = Tokenizer::SkipSpecials;

GgufVocab tales_vocab() {
  const Json json = read_json(tales() / "tokenizer.json");
  GgufVocab vocab;
  vocab.where = "tales.gguf";
  vocab.model = "gpt2";
  vocab.tokens.resize(static_cast<size_t>(Tokenizer::load(tales()).vocab_size()));
  vocab.token_type.assign(vocab.tokens.size(), GgufVocab::kNormal);
  for (const auto& [text, id] : json["model"]["vocab"].items()) vocab.tokens[id.get<size_t>()] = text;
  for (const Json& token : json["added_tokens"]) {
    vocab.tokens[token["id"].get<size_t>()] = token["content"];
    vocab.token_type[token["id"].get<size_t>()] = GgufVocab::kControl;
  }
  for (const Json& merge : json["model"]["merges"]) {
    vocab.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                             : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return vocab;
}

// All kinds of tokenizers that spell in pieces, by name.
std::vector<std::pair<std::string, Tokenizer>> all_kinds() {
  std::vector<std::pair<std::string, Tokenizer>> kinds;
  const Json fixture = read_json(fixtures() / "pieces_hf.json");
  for (const Json& form : fixture["groups"])
    kinds.emplace_back(form["name"].get<std::string>(), make(pieces_json(fixture, form)));
  GgufVocab vocab = pieces_vocab();
  kinds.emplace_back("GGUF", make_tokenizer(vocab));
  vocab.add_space_prefix = false;
  kinds.emplace_back("GGUF without prefix", make_tokenizer(vocab));
  return kinds;
}

TEST(Pieces, AgreesWithSentencePiece) {
  const Tokenizer tokenizer = make_tokenizer(pieces_vocab());
  const Json fixture = read_json(fixtures() / "pieces.json");
  for (const Json& one : fixture["cases"]) {
    SCOPED_TRACE(one["text"].dump());
    const Ids ids = tokenizer.encode(one["text"].get<std::string>(), Specials::kPlain);
    EXPECT_EQ(ids, one["ids"].get<Ids>());
    EXPECT_EQ(tokenizer.decode(ids, SkipSpecials::kKeep), one["decoded"].get<std::string>());
  }
}

TEST(Pieces, AgreesWithLlamaCppOnGgufVocabularies) {
  const Json fixture = read_json(fixtures() / "gguf_cases.json");
  for (const Json& group : fixture["groups"]) {
    GgufVocab vocab = group["model"] == "llama" ? pieces_vocab() : tales_vocab();
    vocab.pre = group.value("pre", "");
    vocab.add_space_prefix = group.value("add_space_prefix", true);
    const Tokenizer tokenizer = make_tokenizer(vocab);
    for (const Json& one : group["cases"]) {
      SCOPED_TRACE(group["model"].dump() + " " + vocab.pre + " " + one["text"].dump());
      const std::string text = one["text"];
      EXPECT_EQ(tokenizer.encode(text, Specials::kPlain), one["plain"].get<Ids>());
      EXPECT_EQ(tokenizer.encode(text, Specials::kParse), one["parse"].get<Ids>());
    }
  }
}

TEST(Pieces, AgreesWithHuggingFaceOnByteFallback) {
  const Json fixture = read_json(fixtures() / "pieces_hf.json");
  for (const Json& form : fixture["groups"]) {
    const Tokenizer tokenizer = make(pieces_json(fixture, form));
    for (const Json& one : form["cases"]) {
      SCOPED_TRACE(form["name"].get<std::string>() + ": " + one["text"].dump());
      const std::string text = one["text"];
      const Ids ids = tokenizer.encode(text, Specials::kParse);
      EXPECT_EQ(ids, one["ids_no_special"].get<Ids>());
      EXPECT_EQ(tokenizer.encode_document(text, Specials::kParse), one["ids"].get<Ids>());
      EXPECT_EQ(tokenizer.decode(ids, SkipSpecials::kKeep), one["kept"].get<std::string>());
      EXPECT_EQ(tokenizer.decode(ids, SkipSpecials::kSkip), one["skipped"].get<std::string>());
    }
  }
}

TEST(Pieces, HoldsBackBytesUntilACharacterIsWhole) {
  const Tokenizer tokenizer = make_tokenizer(pieces_vocab());
  Detokenizer detokenizer(tokenizer);
  const auto byte = [&](unsigned char value) { return *tokenizer.id_of(byte_piece(value)); };
  EXPECT_EQ(detokenizer.push(*tokenizer.id_of("▁the")), " the");
  EXPECT_EQ(detokenizer.push(byte(0xF0)), "");
  EXPECT_EQ(detokenizer.push(byte(0x9F)), "");
  EXPECT_EQ(detokenizer.push(byte(0x98)), "");
  EXPECT_EQ(detokenizer.push(byte(0x80)), "😀");
  EXPECT_EQ(detokenizer.push(byte(0xE4)), "");
  EXPECT_EQ(detokenizer.push(*tokenizer.id_of("▁the")), "\uFFFD the");
  EXPECT_EQ(detokenizer.push(byte('\n')), "\n");
  EXPECT_EQ(detokenizer.push(byte(0xC3)), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
}

TEST(Pieces, TheFirstSpaceOfATextIsLeftOutAndThatOfAnAnswerIsNot) {
  const Tokenizer tokenizer = make_tokenizer(pieces_vocab());
  const TokenId the = *tokenizer.id_of("▁the");
  const TokenId spaces = *tokenizer.id_of("▁▁");
  Detokenizer text(tokenizer, SkipSpecials::kSkip, Detokenizer::Place::kBeginning);
  EXPECT_EQ(text.push(1), "");  // <s> is skipped: the text has not begun
  EXPECT_EQ(text.push(the), "the");
  EXPECT_EQ(text.push(the), " the");
  EXPECT_EQ(text.finish(), "");
  EXPECT_EQ(text.push(spaces), " ");  // as new
  EXPECT_EQ(text.push(the), " the");
  Detokenizer answer(tokenizer);
  EXPECT_EQ(answer.push(the), " the");
  EXPECT_EQ(detokenize(tokenizer, Ids{1, the}, SkipSpecials::kSkip), "the");
  EXPECT_EQ(detokenize(tokenizer, Ids{1, the}, SkipSpecials::kKeep), "<s> the");
}

TEST(Pieces, StreamingGivesWhatAllAtOnceGives) {
  const Tokenizer tokenizer = make_tokenizer(pieces_vocab());
  EXPECT_TRUE(rc::check("chunks are valid, add up, and go on after any text", [&] {
    const auto token = rc::gen::oneOf(
        rc::gen::inRange<TokenId>(0, tokenizer.vocab_size() + 1), rc::gen::inRange<TokenId>(6 + 0x80, 6 + 0xFF),
        rc::gen::element<TokenId>(6 + 0xE4, 6 + 0xB8, 6 + 0xAD, 6 + 0xF0, 6 + 0x9F, 6 + ' ', 263, 264, 272));
    const Ids ids = *rc::gen::container<Ids>(token);
    for (const SkipSpecials specials : {SkipSpecials::kSkip, SkipSpecials::kKeep}) {
      Detokenizer whole(tokenizer, specials, Detokenizer::Place::kBeginning);
      Detokenizer inside(tokenizer, specials);
      std::string all;
      std::string continued;
      for (const TokenId id : ids) {
        const std::string chunk = whole.push(id);
        RC_ASSERT(is_valid_utf8(chunk));
        all += chunk;
        continued += inside.push(id);
      }
      all += whole.finish();
      continued += inside.finish();
      RC_ASSERT(all == detokenize(tokenizer, ids, specials));
      Ids after_a_word{*tokenizer.id_of("he")};
      after_a_word.insert(after_a_word.end(), ids.begin(), ids.end());
      RC_ASSERT("he" + continued == detokenize(tokenizer, after_a_word, specials));
    }
  }));
}

// Any bytes but what the tokenizers themselves cannot tell apart: the mark of a space, and, for most forms, text
// beside the token <user>.
rc::Gen<std::string> any_text() {
  const auto character = rc::gen::map(
      rc::gen::suchThat(rc::gen::inRange<std::uint32_t>(0, 0x110000),
                        [](std::uint32_t code) { return code != 0x2581 && (code < 0xD800 || code > 0xDFFF); }),
      [](std::uint32_t code) {
        std::string out;
        append_utf8(out, code);
        return out;
      });
  const auto piece = rc::gen::oneOf(
      character, rc::gen::element<std::string>("the", " ", "  ", "a", "\n", "<s>", "</s>", "<|end|>", "<0x41>", "é",
                                               "中文", "😀", "\xE4\xB8", "\xFF", "\xC0\x80", std::string(1, '\0'),
                                               " the answer", "\t", "1234"));
  return joined(piece);
}

TEST(Pieces, DecodeIsTheInverseOfEncode) {
  const auto kinds = all_kinds();
  EXPECT_TRUE(rc::check("decode(encode(x)) == x", [&] {
    const std::string text = *any_text();
    for (const auto& [name, tokenizer] : kinds) {
      const bool keeps_first_space = name != "Mistral" &&
                                     !(name.find("Metaspace") != std::string::npos && name != "Metaspace never") &&
                                     name != "whole words";
      if (!keeps_first_space && text.starts_with(' ')) continue;
      const Ids ids = tokenizer.encode(text, Specials::kPlain);
      if (tokenizer.decode(ids, SkipSpecials::kKeep) != text) RC_FAIL(name);
      for (const TokenId id : ids) RC_ASSERT(!tokenizer.is_special(id));
    }
  }));
}

TEST(Pieces, CuttingIntoPiecesOfOneKindChangesNothing) {
  const auto kinds = all_kinds();
  EXPECT_TRUE(rc::check("pieces of one kind are one text", [&] {
    const std::string text = *any_text();
    const size_t cut = *rc::gen::inRange<size_t>(0, text.size() + 1);
    for (const auto& [name, tokenizer] : kinds) {
      for (const Specials specials : {Specials::kParse, Specials::kPlain}) {
        const std::vector<Tokenizer::TextPiece> parts{{std::string_view(text).substr(0, cut), specials},
                                                      {std::string_view(text).substr(cut), specials}};
        RC_ASSERT(tokenizer.encode(parts) == tokenizer.encode(text, specials));
      }
    }
  }));
}

TEST(Pieces, OriginSurvivesMarksOfSpaces) {
  for (const auto& [name, tokenizer] : all_kinds()) {
    const std::vector<Tokenizer::TextPiece> parts{{"<s>", Specials::kParse},  {"  a <s> b ", Specials::kPlain},
                                                  {"</s>", Specials::kParse}, {"<|end", Specials::kParse},
                                                  {"|>", Specials::kPlain},   {" c", Specials::kParse}};
    const Ids ids = tokenizer.encode(parts);
    Ids specials;
    std::ranges::copy_if(ids, std::back_inserter(specials),
                         [&, &by = tokenizer](TokenId id) { return by.is_special(id); });
    // The first Llamas look for their tokens behind the mark that goes before a text, so only the first is found.
    EXPECT_EQ(specials, (name == "first Llamas" ? Ids{1} : Ids{1, 2})) << name;
  }
}

TEST(Pieces, MarksMoveWithReplacedText) {
  using Ranges = std::vector<TextRange>;
  const auto normalized = [](const NormalizerStep& step, const std::string& text, const Ranges& marked) {
    MarkedRanges out{text, marked};
    normalize(step, out);
    return out;
  };
  const ReplaceStep spaces{" ", std::string(kSpaceMark)};
  const MarkedRanges moved = normalized(spaces, "a b <s>", {{2, 3}, {4, 7}});
  EXPECT_EQ(moved.text, "a▁b▁<s>");
  EXPECT_EQ(moved.marked, (Ranges{{4, 5}, {8, 11}}));
  EXPECT_EQ(normalized(spaces, " a ", {{0, 1}, {2, 3}}).marked, (Ranges{{0, 3}, {4, 7}}));
  // Half of a string that is replaced is all of it.
  EXPECT_EQ(normalized(ReplaceStep{"abc", "x"}, "zabcz", {{2, 3}}).marked, (Ranges{{1, 2}}));
  EXPECT_EQ(normalized(ReplaceStep{"abc", "x"}, "zabcz", {{3, 5}}).marked, (Ranges{{1, 3}}));
  EXPECT_EQ(normalized(ReplaceStep{"abc", ""}, "zabcz", {{1, 4}}).marked, Ranges{});
  EXPECT_EQ(normalized(PrependStep{"__"}, "abc", {{1, 2}}).marked, (Ranges{{3, 4}}));
  EXPECT_EQ(normalized(PrependStep{"__"}, "", {}).text, "");
}

TEST(Pieces, TheFourNormalForms) {
  const auto form_of = [](NormalForm form, std::string text) {
    MarkedRanges out{std::move(text), {}};
    normalize(form, out);
    return out.text;
  };
  const std::string text =
      "\uFB01 e\u0301 \u00E9 \uFF21\u00B2";  // fi as one letter, two ways to write é, a wide A, a square
  EXPECT_EQ(form_of(NormalForm::kNfc, text), "\uFB01 \u00E9 \u00E9 \uFF21\u00B2");
  EXPECT_EQ(form_of(NormalForm::kNfd, text), "\uFB01 e\u0301 e\u0301 \uFF21\u00B2");
  EXPECT_EQ(form_of(NormalForm::kNfkc, text), "fi \u00E9 \u00E9 A2");
  EXPECT_EQ(form_of(NormalForm::kNfkd, text), "fi e\u0301 e\u0301 A2");
}

TEST(Pieces, AMegabyteInOneWordTakesNoQuadraticTime) {
  for (const auto& kind : all_kinds()) {
    const Tokenizer& tokenizer = kind.second;
    const bool bytes = kind.first == "GGUF" || kind.first == "Mistral";
    const auto encode = [&](size_t size) {
      for (const char* piece : {"a", "a ", "\n", "中", "é", "\xFF"}) {
        if (!bytes && piece != std::string_view("a")) continue;
        std::string text;
        while (text.size() < size) text += piece;
        const auto ids = tokenizer.encode(text, Specials::kPlain);
        EXPECT_FALSE(ids.empty());
        if (bytes) {
          EXPECT_EQ(tokenizer.decode(ids, SkipSpecials::kKeep), text) << kind.first;
        }
      }
      if (bytes) {
        EXPECT_FALSE(tokenizer.encode(std::string(size, ' '), Specials::kPlain).empty());
      }
    };
    EXPECT_LT(testing::growth_of_eightfold(encode, 1 << 17), 24) << kind.first;
  }
}

}  // namespace
}  // namespace kvasir
