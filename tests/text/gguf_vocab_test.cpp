#include "text/gguf_vocab.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "text/gguf_pretokenizer.h"
#include "text/pieces.h"
#include "text_test_util.h"

namespace kvasir {
namespace {

using Ids = std::vector<TokenId>;
using Specials = Tokenizer::Specials;
using SkipSpecials = Tokenizer::SkipSpecials;

std::string refusal(const GgufVocab& vocab) {
  try {
    make_tokenizer(vocab);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kBadInput);
    return error.what();
  }
  return "";
}

TokenId id_in(const GgufVocab& vocab, std::string_view text) {
  return static_cast<TokenId>(std::ranges::find(vocab.tokens, text) - vocab.tokens.begin());
}

// The tokens of a text, spelled as in the file.
std::vector<std::string> spelled(const GgufVocab& vocab, std::string_view text,
                                 Specials specials = Specials::kPlain) {
  std::vector<std::string> out;
  for (const TokenId id : make_tokenizer(vocab).encode(text, specials))
    out.push_back(vocab.tokens[static_cast<size_t>(id)]);
  return out;
}

using Texts = std::vector<std::string>;

TEST(GgufVocab, SentencePieceMergesByScoreThenFromTheLeft) {
  GgufVocab vocab = small_spm_vocab();
  EXPECT_EQ(spelled(vocab, "hello"), (Texts{"▁hell", "o"}));
  EXPECT_EQ(spelled(vocab, "aaa"), (Texts{"▁", "aa", "a"}));
  // "lo" scores below "ll", until it does not.
  EXPECT_EQ(spelled(vocab, "llo"), (Texts{"▁", "ll", "o"}));
  std::swap(vocab.scores[static_cast<size_t>(id_in(vocab, "lo"))],
            vocab.scores[static_cast<size_t>(id_in(vocab, "ll"))]);
  EXPECT_EQ(spelled(vocab, "llo"), (Texts{"▁", "l", "lo"}));
  // At one score the leftmost pair merges.
  vocab.scores[static_cast<size_t>(id_in(vocab, "lo"))] = vocab.scores[static_cast<size_t>(id_in(vocab, "ll"))];
  EXPECT_EQ(spelled(vocab, "llo"), (Texts{"▁", "ll", "o"}));
}

TEST(GgufVocab, CharactersWithoutATokenAreBytes) {
  GgufVocab vocab = small_spm_vocab();
  EXPECT_EQ(spelled(vocab, "é"), (Texts{"▁", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(spelled(vocab, "中"), (Texts{"▁", "中"}));
  EXPECT_EQ(spelled(vocab, std::string_view("\0\n", 2)), (Texts{"▁", "<0x00>", "<0x0A>"}));
  EXPECT_EQ(spelled(vocab, "\xE4\xB8"), (Texts{"▁", "<0xE4>", "<0xB8>"}));
  // The text of a byte's token is text.
  EXPECT_EQ(spelled(vocab, "<0x00>"), (Texts{"▁", "<", "<0x30>", "<0x78>", "<0x30>", "<0x30>", ">"}));
  // Without bytes there is the unknown token, one for a run.
  std::erase_if(vocab.tokens, [](const std::string& text) { return byte_of_piece(text).has_value(); });
  vocab.scores.resize(vocab.tokens.size());
  vocab.token_type.assign(vocab.tokens.size(), GgufVocab::kNormal);
  EXPECT_EQ(spelled(vocab, "aéßa"), (Texts{"▁", "a", "<unk>", "a"}));
}

TEST(GgufVocab, ASpaceIsPutBeforeEveryTextAndLeftOutAgain) {
  GgufVocab vocab = small_spm_vocab();
  EXPECT_EQ(spelled(vocab, ""), Texts{});
  EXPECT_EQ(spelled(vocab, " "), Texts{"▁▁"});
  EXPECT_EQ(spelled(vocab, "   "), (Texts{"▁▁", "▁▁"}));
  EXPECT_EQ(spelled(vocab, "<s>a<s>", Specials::kParse), (Texts{"<s>", "▁", "a", "<s>"}));
  const Tokenizer tokenizer = make_tokenizer(vocab);
  for (const std::string text : {"", " ", "   ", " a", "hello", "é", "\xFF", "a  b"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Specials::kPlain), SkipSpecials::kKeep), text);
  }
  vocab.add_space_prefix = false;
  EXPECT_EQ(spelled(vocab, "a"), Texts{"a"});
  EXPECT_EQ(spelled(vocab, " hello"), (Texts{"▁hell", "o"}));
  EXPECT_EQ(make_tokenizer(vocab).decode(Ids{id_in(vocab, "▁hell")}, SkipSpecials::kKeep), " hell");
}

TEST(GgufVocab, ControlTokensAreParsedAndUserDefinedOnesAlwaysFound) {
  GgufVocab vocab = small_spm_vocab();
  EXPECT_EQ(spelled(vocab, "a<s>", Specials::kParse), (Texts{"▁", "a", "<s>"}));
  EXPECT_EQ(spelled(vocab, "a<user>", Specials::kPlain), (Texts{"▁", "a", "<user>"}));
  EXPECT_EQ(spelled(vocab, "a<user>b", Specials::kParse), (Texts{"▁", "a", "<user>", "▁", "<0x62>"}));
  // "s>" and "<" are tokens, so that merging could lead to the control token: it must not.
  EXPECT_EQ(spelled(vocab, "a<s>", Specials::kPlain), (Texts{"▁", "a", "<", "s>"}));
  const Tokenizer tokenizer = make_tokenizer(vocab);
  EXPECT_TRUE(tokenizer.is_special(id_in(vocab, "<s>")));
  EXPECT_TRUE(tokenizer.is_special(id_in(vocab, "<unk>")));
  EXPECT_FALSE(tokenizer.is_special(id_in(vocab, "<user>")));
  EXPECT_EQ(tokenizer.bytes_of(id_in(vocab, "<user>")), "<user>");
  EXPECT_EQ(tokenizer.bytes_of(id_in(vocab, "▁hell")), " hell");
  EXPECT_EQ(tokenizer.bytes_of(id_in(vocab, "<0xE9>")), "\xE9");
}

TEST(GgufVocab, WhatEndsAnAnswerIsSpecialWhateverItsType) {
  GgufVocab vocab = small_spm_vocab();
  vocab.tokens.emplace_back("<|im_end|>");
  vocab.scores.push_back(0);
  vocab.token_type.push_back(GgufVocab::kUserDefined);
  const auto id = static_cast<TokenId>(vocab.tokens.size() - 1);
  const Tokenizer tokenizer = make_tokenizer(vocab);
  EXPECT_TRUE(tokenizer.is_special(id));
  EXPECT_EQ(std::ranges::count(tokenizer.encode("a<|im_end|>", Specials::kPlain), id), 0);
  EXPECT_EQ(tokenizer.encode("<|im_end|>", Specials::kParse), Ids{id});
}

TEST(GgufVocab, SpecialTokensOfPhi3TakeTheSpaceAfterThemAlong) {
  GgufVocab vocab = small_spm_vocab();
  EXPECT_EQ(spelled(vocab, "</s> \n a", Specials::kParse), (Texts{"</s>", "▁▁", "<0x0A>", "▁", "a"}));
  vocab.name = "My Phi-3 mini";
  EXPECT_EQ(spelled(vocab, "</s> \n a", Specials::kParse), (Texts{"</s>", "▁", "a"}));
  EXPECT_EQ(spelled(vocab, "<s> a", Specials::kParse), (Texts{"<s>", "▁▁", "a"}));
}

TEST(GgufVocab, ABosThatIsNoTokenIsRefusedWhereItIsUsed) {
  GgufVocab vocab = small_spm_vocab();
  vocab.bos_token_id = 100'000;
  EXPECT_THROW(make_tokenizer(vocab), Error);  // by custom "llama" puts it first
  vocab.add_bos_token = true;
  EXPECT_THROW(make_tokenizer(vocab), Error);
  vocab.add_bos_token = false;
  EXPECT_EQ(make_tokenizer(vocab).as_document({7}), Ids{7});
  EXPECT_EQ(make_tokenizer(vocab).bos_token(), std::nullopt);
  vocab.eos_token_id = 100'000;
  EXPECT_THROW(make_tokenizer(vocab), Error);
}

TEST(GgufVocab, DocumentsBeginAndEndAsTheFileSays) {
  GgufVocab vocab = small_spm_vocab();
  const TokenId mark = id_in(vocab, "▁");
  EXPECT_EQ(make_tokenizer(vocab).as_document({}), Ids{1});
  vocab.add_bos_token = false;
  EXPECT_EQ(make_tokenizer(vocab).as_document({}), Ids{});
  vocab.add_bos_token = true;
  vocab.add_eos_token = true;
  vocab.bos_token_id = 2;
  vocab.eos_token_id = mark;
  EXPECT_EQ(make_tokenizer(vocab).as_document({7}), (Ids{2, 7, mark}));
  EXPECT_EQ(make_tokenizer(vocab).bos_token(), "</s>");
  EXPECT_TRUE(make_tokenizer(vocab).is_special(mark));
  vocab.chat_template = "{{ messages }}";
  EXPECT_EQ(make_tokenizer(vocab).chat_template(), "{{ messages }}");
  EXPECT_EQ(make_tokenizer(vocab).chat_template_where(), "small.gguf: tokenizer.chat_template");
}

TEST(GgufVocab, OfEqualTokensTheLastIsFoundAndAllAreDecoded) {
  GgufVocab vocab = small_spm_vocab();
  const TokenId first = id_in(vocab, "▁hell");
  vocab.tokens.insert(vocab.tokens.end(), {"▁hell", "", "<s>"});
  vocab.scores.insert(vocab.scores.end(), {10, 0, 0});
  vocab.token_type.insert(vocab.token_type.end(), {GgufVocab::kNormal, GgufVocab::kNormal, GgufVocab::kControl});
  const auto last = static_cast<TokenId>(vocab.tokens.size() - 3);
  const Tokenizer tokenizer = make_tokenizer(vocab);
  EXPECT_EQ(tokenizer.encode("hell", Specials::kParse), Ids{last});
  EXPECT_EQ(tokenizer.bytes_of(first), " hell");
  EXPECT_EQ(tokenizer.encode("<s>", Specials::kParse), Ids{last + 2});
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_EQ(tokenizer.bytes_of(last + 1), "");
}

TEST(GgufVocab, ByteLevelGoesByTheNameOfItsPretokenizer) {
  GgufVocab vocab = small_bpe_vocab();
  const auto words = [&](const char* pre, std::string_view text) {
    vocab.pre = pre;
    return spelled(vocab, text);
  };
  EXPECT_EQ(words("gpt-2", "11 hell"), (Texts{"11", "Ġhell"}));
  EXPECT_EQ(words("smollm", "11 hell"), (Texts{"1", "1", "Ġhell"}));
  EXPECT_EQ(words("qwen2", "11"), (Texts{"1", "1"}));
  EXPECT_EQ(words("llama-bpe", "1111"), (Texts{"111", "1"}));  // the word is a token, whatever its merges
  EXPECT_EQ(words("gpt-2", "1111"), (Texts{"11", "11"}));
  EXPECT_EQ(words("", "hell<user>"), (Texts{"hell", "<user>"}));
  vocab.pre = "nobody's";
  EXPECT_NE(refusal(vocab).find("'nobody's'"), std::string::npos);
  EXPECT_NE(refusal(vocab).find("llama-bpe"), std::string::npos);
}

TEST(GgufVocab, LlamaBpeBeginsDocumentsAndGpt2DoesNot) {
  GgufVocab vocab = small_bpe_vocab();
  vocab.pre = "llama-bpe";
  EXPECT_EQ(make_tokenizer(vocab).as_document({}), Ids{id_in(vocab, "<s>")});
  vocab.pre = "gpt-2";
  EXPECT_EQ(make_tokenizer(vocab).as_document({}), Ids{});
  vocab.add_bos_token = true;
  EXPECT_EQ(make_tokenizer(vocab).as_document({}), Ids{id_in(vocab, "<s>")});
}

TEST(GgufVocab, EveryKnownPretokenizerKeepsEveryByte) {
  GgufVocab vocab = small_bpe_vocab();
  const std::string text =
      "I'LL don't  have 12345 ½ Ⅷ\r\n\n  naïve ÀÉ中文，测试。한국어 שלום 😀👍🏽 "
      "e\u0301\u00A0x "
      "_a_(b) "
      "==> "
      "$5`~|^ "
      " "
      "\n";
  for (const std::string_view name : known_gguf_pretokenizers()) {
    vocab.pre = name;
    const Tokenizer tokenizer = make_tokenizer(vocab);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Specials::kPlain), SkipSpecials::kKeep), text) << name;
  }
}

TEST(GgufVocab, RefusesWhatContradictsItself) {
  const GgufVocab good = small_spm_vocab();
  ASSERT_EQ(refusal(good), "");
  const auto changed = [&](auto change) {
    GgufVocab vocab = small_spm_vocab();
    change(vocab);
    return refusal(vocab);
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.model = "plamo2"; }), "'plamo2'"));
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.tokens.clear(); }), "no tokens"));
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.scores.pop_back(); }), "scores"));
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.scores.clear(); }), "no scores"));
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.token_type.pop_back(); }), "types"));
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.scores[5] = NAN; }), "number"));
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.bos_token_id = -1; }), "bos"));
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.eos_token_id = 1LL << 40; }), "eos"));
  EXPECT_TRUE(has(changed([](GgufVocab& v) { v.tokens[9] = std::string(5000, 'x'); }), "5000"));
  GgufVocab bpe = small_bpe_vocab();
  bpe.merges.emplace_back("h");
  EXPECT_TRUE(has(refusal(bpe), "two tokens"));
  bpe.merges.back() = "q x";
  EXPECT_TRUE(has(refusal(bpe), "qx"));
  bpe.merges.clear();  // every byte a token: poor, and no contradiction
  EXPECT_EQ(refusal(bpe), "");
}

}  // namespace
}  // namespace kvasir
