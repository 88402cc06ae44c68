// Vocabularies and walks for the tests of grammars.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/json_schema.h"
#include "grammar/matcher.h"
#include "grammar/token_mask.h"
#include "schema_maker.h"
#include "text/tokenizer.h"

namespace kvasir::grammar::testing {

// Whether the whole text is of the grammar, byte by byte.
inline bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  for (const char c : text) {
    if (!matcher.accept(std::string_view(&c, 1))) return false;
  }
  return matcher.complete();
}

inline bool accepts(const char* schema, std::string_view text) { return accepts(compile_json_schema(schema), text); }

// A schema, texts of it (which satisfy it), and texts that are not.
struct SchemaCase {
  const char* schema;
  std::vector<const char*> good;
  std::vector<const char*> bad;
};

inline void check_cases(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& one : cases) {
    const auto grammar = compile_json_schema(one.schema);
    const Json schema = Json::parse(one.schema);
    for (const char* text : one.good) {
      EXPECT_TRUE(accepts(grammar, text)) << one.schema << "  " << text;
      EXPECT_EQ(why_invalid(Json::parse(text), schema, schema), "") << one.schema << "  " << text;
    }
    for (const char* text : one.bad) EXPECT_FALSE(accepts(grammar, text)) << one.schema << "  " << text;
  }
}

// All single bytes, then the given tokens, then one that ends the text.
inline std::shared_ptr<const Vocabulary> byte_vocabulary(const std::vector<std::string>& more = {}) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), more.begin(), more.end());
  tokens.emplace_back();
  const auto end = static_cast<TokenId>(tokens.size() - 1);
  return std::make_shared<const Vocabulary>(std::move(tokens), std::vector<TokenId>{end});
}

// Bytes, and random tokens of what JSON is made of.
inline std::shared_ptr<const Vocabulary> random_vocabulary(SchemaMaker& random) {
  static const std::vector<std::string> pieces{
      "{",  "}",     "[",    "]",    "\"",   ":",    ",",        " ",        "\n",   "a",
      "ab", "abc",   "name", "null", "true", "1",    "23",       ".",        "-",    "e",
      "\\", "\\u00", "\\n",  "x",    "\xC3", "\xA9", "\xC3\xA9", "\xE6\xBC", "\xA2", "\xF0\x9F\x99\x82",
      "  ", "hello"};
  std::vector<std::string> more;
  for (int i = 0; i < 300; ++i) {
    std::string token;
    for (std::size_t k = 1 + random.below(5); k > 0; --k) token += pieces[random.below(pieces.size())];
    more.push_back(token);
  }
  return byte_vocabulary(more);
}

// The tokens' bytes; the special ones end a text.
inline std::shared_ptr<const Vocabulary> vocabulary_of(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  std::vector<TokenId> ends;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const bool special = tokenizer.is_special(id);
    tokens.emplace_back(special ? std::string_view() : tokenizer.bytes_of(id));
    if (special) ends.push_back(id);
  }
  return std::make_shared<const Vocabulary>(std::move(tokens), std::move(ends));
}

inline std::shared_ptr<const Vocabulary> shipped_vocabulary() {
  return vocabulary_of(Tokenizer::load(std::filesystem::path(KVASIR_SOURCE_DIR) / "models/tales"));
}

// Appends a token that the mask allows: any, or when `hurried` one that brings the text towards its end.
// False when the text has ended.
enum class Pace { kAny, kHurried };
inline bool walk_one(TokenMasker& masker, SchemaMaker& random, Pace pace, Matcher& matcher, std::string& text) {
  const std::shared_ptr<const TokenSet> mask = masker.mask(matcher);
  if (pace == Pace::kHurried) {
    if (matcher.complete()) return false;
    const bool in_string = mask->count() > 100;
    for (const char c : std::string_view(text.ends_with(':') ? "n" : in_string ? "\"" : "}]\"")) {
      if (!mask->contains(static_cast<unsigned char>(c)) || random.chance(4)) continue;
      text += c;
      return matcher.accept(std::string_view(&c, 1));
    }
  }
  std::vector<TokenId> allowed;
  for (TokenId id = 0; static_cast<std::size_t>(id) < mask->size(); ++id) {
    if (mask->contains(id)) allowed.push_back(id);
  }
  if (allowed.empty()) return false;
  const TokenId token = allowed[random.below(allowed.size())];
  if (masker.vocabulary().is_end(token)) return false;
  text += masker.vocabulary().bytes_of(token);
  return matcher.accept(masker.vocabulary().bytes_of(token));
}

}  // namespace kvasir::grammar::testing
