// Random schemas: what comes out satisfies them, and what satisfies them goes in.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <optional>

#include "base/error.h"
#include "grammar_test_util.h"
#include "wild_schema.h"

namespace kvasir::grammar::testing {
namespace {

constexpr int kSteps = 60;
constexpr int kMostSteps = 4000;

std::string random_text(const std::shared_ptr<const Grammar>& grammar, TokenMasker& masker, SchemaMaker& random) {
  Matcher matcher(grammar);
  std::string text;
  int steps = 0;
  while (walk_one(masker, random, steps < kSteps ? Pace::kAny : Pace::kHurried, matcher, text)) {
    if (++steps == kMostSteps) RC_FAIL("no end: " + text);
  }
  RC_ASSERT(matcher.complete());
  return text;
}

TEST(SchemaProperty, EveryRandomWalkEndsInAValueOfTheSchema) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    SchemaMaker random(seed);
    const Json schema = random.schema();
    const auto grammar = compile_json_schema(schema.dump());
    TokenMasker masker(random_vocabulary(random));
    for (int i = 0; i < 5; ++i) {
      const std::string text = random_text(grammar, masker, random);
      const Json value = Json::parse(text, nullptr, false);
      const std::string why = value.is_discarded() ? "not JSON" : why_invalid(value, schema, schema);
      if (!why.empty()) RC_FAIL(why + "\n" + schema.dump() + "\n" + text);
    }
  }));
}

TEST(SchemaProperty, EveryValueOfTheSchemaIsAcceptedCompactAndIndented) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    SchemaMaker random(seed);
    const Json schema = random.schema();
    const auto grammar = compile_json_schema(schema.dump());
    for (int i = 0; i < 10; ++i) {
      const Json value = random.value(schema, schema);
      const std::string why = why_invalid(value, schema, schema);
      if (!why.empty()) RC_FAIL(why + "\n" + schema.dump());
      for (const int indent : {-1, 1, 2}) {
        // Enum values of several tokens are written one way, without white space.
        if (indent > 0 && schema.dump().find("[1,\"b\"]") != std::string::npos) continue;
        const std::string text = value.dump(indent);
        if (!accepts(grammar, text)) RC_FAIL(schema.dump() + "\n" + text);
      }
    }
  }));
}

TEST(SchemaProperty, ValuesAreAcceptedTokenByTokenInAnyTokenization) {
  const Tokenizer tokenizer = Tokenizer::load(std::filesystem::path(KVASIR_SOURCE_DIR) / "models/tales");
  EXPECT_TRUE(rc::check([&](std::uint64_t seed) {
    SchemaMaker random(seed);
    const Json schema = random.schema();
    const auto grammar = compile_json_schema(schema.dump());
    const std::string text = random.value(schema, schema).dump();
    Matcher by_tokens(grammar);
    for (const TokenId id : tokenizer.encode(text, Tokenizer::Specials::kPlain)) {
      RC_ASSERT(by_tokens.accept(tokenizer.bytes_of(id)));
    }
    RC_ASSERT(by_tokens.complete());
    Matcher by_chunks(grammar);
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t size = std::min(rest.size(), 1 + random.below(9));
      RC_ASSERT(by_chunks.can_accept(rest.substr(0, size)));
      RC_ASSERT(by_chunks.accept(rest.substr(0, size)));
      rest.remove_prefix(size);
    }
    RC_ASSERT(by_chunks.complete());
    RC_ASSERT(by_chunks.digest() == by_tokens.digest());
  }));
}

TEST(SchemaProperty, BrokenTextsAreNotAccepted) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    SchemaMaker random(seed);
    const Json schema = random.schema();
    const auto grammar = compile_json_schema(schema.dump());
    std::string text = random.value(schema, schema).dump();
    text[random.below(text.size())] = static_cast<char>(random.below(256));
    if (!accepts(grammar, text)) return;
    const Json value = Json::parse(text, nullptr, false);
    const std::string why = value.is_discarded() ? "not JSON" : why_invalid(value, schema, schema);
    if (!why.empty()) RC_FAIL(why + "\n" + schema.dump() + "\n" + text);
  }));
}

// A text of the grammar, or nothing when it has no end within sight.
std::optional<std::string> short_text(const std::shared_ptr<const Grammar>& grammar, TokenMasker& masker,
                                      SchemaMaker& random) {
  Matcher matcher(grammar);
  std::string text;
  for (int steps = 0; steps < 400; ++steps) {
    if (!walk_one(masker, random, steps < 40 ? Pace::kAny : Pace::kHurried, matcher, text)) return text;
  }
  return std::nullopt;
}

// All keywords, however they come together: an answer always satisfies its schema, or there is an error.
TEST(SchemaProperty, WhateverIsAcceptedIsHeldTo) {
  int compiled = 0, refused = 0, accepted = 0, walked = 0;
  TokenMasker masker(byte_vocabulary({"\":", "{\"", "[]", "null", "true", "\"a\"", "ab", ",\""}));
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    SchemaMaker random(seed);
    WildSchemas wild(random);
    const Json schema = wild.schema();
    std::shared_ptr<const Grammar> grammar;
    try {
      grammar = compile_json_schema(schema.dump());
      ++compiled;
    } catch (const Error&) {
      ++refused;
      continue;
    }
    const auto check = [&](const std::string& text) {
      const Json value = Json::parse(text, nullptr, false);
      const std::string why = value.is_discarded() ? "not JSON" : why_invalid(value, schema, schema);
      EXPECT_EQ(why, "") << seed << "\n" << schema.dump() << "\n" << text;
    };
    for (int i = 0; i < 4; ++i) {
      const std::optional<std::string> text = short_text(grammar, masker, random);
      if (!text) continue;
      ++walked;
      check(*text);
    }
    for (int i = 0; i < 30; ++i) {
      const std::string text = wild.value().dump();
      if (!accepts(grammar, text)) continue;
      ++accepted;
      check(text);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(compiled, refused);
  EXPECT_GT(accepted, 10 * 1000);
  EXPECT_GT(walked, 5 * 1000);
}

}  // namespace
}  // namespace kvasir::grammar::testing
