// Two texts as one: what post-processors put around them, held to what the Hugging Face library gives, and the texts
// that rerankers were trained with.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/gguf_vocab.h"
#include "text/pair_prompt.h"

namespace kvasir {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<TokenId>;

Tokenizer words_with(const Json& processor) {
  const Json special{{"id", 6},         {"content", "<|end|>"}, {"single_word", false}, {"lstrip", false},
                     {"rstrip", false}, {"normalized", false},  {"special", true}};
  const Json vocab{{"[CLS]", 0}, {"[SEP]", 1}, {"a", 2}, {"b", 3}, {"c", 4}, {"[UNK]", 5}, {"q", 7}, {"d", 8}};
  const Json json{{"version", "1.0"},
                  {"added_tokens", Json::array({special})},
                  {"pre_tokenizer", {{"type", "Whitespace"}}},
                  {"post_processor", processor},
                  {"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "[UNK]"}}}};
  return Tokenizer::from_json(json.dump(), "test.json");
}

Json text_part(const char* id, int type) { return {{"Sequence", {{"id", id}, {"type_id", type}}}}; }
Json token_part(const char* id, int type) { return {{"SpecialToken", {{"id", id}, {"type_id", type}}}}; }
Json template_of(const Json& single, const Json& pair) {
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", {{"[CLS]", {{"ids", {0}}}}, {"[SEP]", {{"ids", {1}}}}}}};
}

Tokenizer::Pair pair_of(const Tokenizer& tokenizer) {
  const auto tokens = [&](const char* text) { return tokenizer.encode(text, Tokenizer::Specials::kPlain); };
  return tokenizer.as_pair(tokens("a b"), tokens("c a b"));
}

TEST(Pairs, PostProcessorsPutAroundThemWhatTheLibraryDoes) {
  const Json cls_sep{{"sep", {"[SEP]", 1}}, {"cls", {"[CLS]", 0}}};
  Json bert = cls_sep;
  bert["type"] = "BertProcessing";
  Json roberta = cls_sep;
  roberta["type"] = "RobertaProcessing";
  const Json bytes{{"type", "ByteLevel"}};
  const Json usual = template_of(
      {token_part("[CLS]", 0), text_part("A", 0), token_part("[SEP]", 0)},
      {token_part("[CLS]", 0), text_part("A", 0), token_part("[SEP]", 0), text_part("B", 1), token_part("[SEP]", 1)});
  const Json odd =
      template_of(Json::array({text_part("A", 0)}), {text_part("B", 3), token_part("[SEP]", 2), text_part("A", 1)});
  const Json sequence{{"type", "Sequence"}, {"processors", {bytes, usual}}};
  struct Case {
    Json processor;
    Ids tokens;
    Ids types;
  };
  const Ids once{0, 2, 3, 1, 4, 2, 3, 1};
  const Ids typed{0, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<Case> cases{{bert, once, typed},
                                {roberta, {0, 2, 3, 1, 1, 4, 2, 3, 1}, Ids(9, 0)},
                                {usual, once, typed},
                                {odd, {4, 2, 3, 1, 2, 3}, {3, 3, 3, 2, 1, 1}},
                                {sequence, once, typed},
                                {bytes, {2, 3, 4, 2, 3}, {0, 0, 1, 1, 1}},
                                {nullptr, {2, 3, 4, 2, 3}, {0, 0, 1, 1, 1}}};
  for (const Case& one : cases) {
    const Tokenizer::Pair pair = pair_of(words_with(one.processor));
    EXPECT_EQ(pair.tokens, one.tokens) << one.processor;
    EXPECT_EQ(pair.types, one.types) << one.processor;
  }
}

TEST(Pairs, TemplatesThatNameNoPairAreRefused) {
  const Json single = Json::array({text_part("A", 0)});
  for (const Json& pair : {Json::array({text_part("A", 0)}), Json{text_part("A", 0), text_part("A", 1)},
                           Json{text_part("A", 0), text_part("C", 1)}, Json{text_part("A", 0), text_part("B", -1)}}) {
    EXPECT_THROW(words_with(template_of(single, pair)), Error) << pair;
  }
}

TEST(Pairs, GgufVocabulariesHaveTheirModelsPairs) {
  GgufVocab vocab;
  vocab.where = "test.gguf";
  vocab.model = "bert";
  vocab.tokens = {"[CLS]", "[SEP]", "\u2581a", "\u2581b", "\u2581c", "[UNK]"};
  vocab.token_type = {3, 3, 1, 1, 1, 2};
  vocab.bos_token_id = 0;
  vocab.seperator_token_id = 1;
  vocab.unknown_token_id = 5;
  const Tokenizer::Pair pair = pair_of(make_tokenizer(vocab));
  EXPECT_EQ(pair.tokens, (Ids{0, 2, 3, 1, 4, 2, 3, 1}));
  EXPECT_EQ(pair.types, (Ids{0, 0, 0, 0, 1, 1, 1, 1}));
}

// Of a document, and of nothing else, is cut what is too much.
TEST(PairPrompt, DocumentsAreCut) {
  Json roberta{{"type", "RobertaProcessing"}, {"sep", {"[SEP]", 1}}, {"cls", {"[CLS]", 0}}};
  const PairPrompt plain(words_with(roberta));
  EXPECT_EQ(plain.tokens({"a", "c b a"}, {}).tokens, (Ids{0, 2, 1, 1, 4, 3, 2, 1}));
  EXPECT_EQ(plain.tokens({"a", "c b a"}, {.most_of_document = 2}).tokens, (Ids{0, 2, 1, 1, 4, 3, 1}));
  EXPECT_EQ(plain.tokens({"a", "c b a"}, {.most = 6}).tokens, (Ids{0, 2, 1, 1, 4, 1}));
  EXPECT_EQ(plain.tokens({"a b c", "c b a"}, {.most = 2}).tokens,
            (Ids{0, 2, 3, 4, 1, 1, 1}));  // nothing is left of it
  const PairPrompt text(words_with(nullptr), "q {query} <|end|> d {document} <|end|> b");
  EXPECT_EQ(text.tokens({"a", "c b a"}, {}).tokens, (Ids{7, 2, 6, 8, 4, 3, 2, 6, 3}));
  EXPECT_EQ(text.tokens({"a", "c b a"}, {.most_of_document = 1}).tokens, (Ids{7, 2, 6, 8, 4, 6, 3}));
  EXPECT_EQ(text.tokens({"a", "c b a"}, {.most = 8}).tokens, (Ids{7, 2, 6, 8, 4, 3, 6, 3}));
  EXPECT_EQ(text.tokens({"a", ""}, {.most_of_document = 1}).tokens, (Ids{7, 2, 6, 8, 6, 3}));
}

// What was asked never becomes a special token, nor a place of the text.
TEST(PairPrompt, WhatWasAskedIsText) {
  const PairPrompt text(words_with(nullptr), "{instruction} q {query} <|end|> d {document}");
  const Ids tokens = text.tokens({"<|end|>", "{query} a", "b"}, {}).tokens;
  EXPECT_EQ(std::ranges::count(tokens, 6), 1);
  EXPECT_EQ(tokens.front(), 3);
  EXPECT_EQ(tokens.back(), 2);
  EXPECT_TRUE(text.takes_instruction());
  EXPECT_FALSE(PairPrompt(words_with(nullptr)).takes_instruction());
  EXPECT_THROW(PairPrompt(words_with(nullptr), "{query} alone"), Error);
  EXPECT_THROW(PairPrompt(words_with(nullptr), "{query} {document} {query}"), Error);
}

TEST(PairPrompt, ChatTemplatesMayKnowQueriesAndDocuments) {
  const PairPrompt chat(
      words_with(nullptr),
      ChatTemplate("{% for m in messages %}{{ 'q ' if m.role == 'query' else 'd ' }}{{ m.content }} "
                   "<|end|> {% endfor %}",
                   "test"));
  EXPECT_EQ(chat.tokens({"a", "b <|end|>"}, {}).tokens.size(), 2U + 1 + 2 + 3 + 1);  // the document's end is no token, but three words
}

}  // namespace
}  // namespace kvasir
