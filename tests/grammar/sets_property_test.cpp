// Random sets (arrays that must not have an element twice) × random choices among the tokens that a mask allows.
#include <gtest/gtest.h>

#include "base/error.h"
#include "grammar_test_util.h"
#include "set_maker.h"

namespace kvasir::grammar::testing {
namespace {

constexpr int kSetSchemas = 400;
constexpr int kWalksOfEach = 4;
constexpr int kFreeSteps = 50;
constexpr int kStepsToEnd = 4000;

struct Counts {
  int schemas = 0, refused = 0, tempted = 0;
};

void expect_what_trying_gives(TokenMasker& masker, const Matcher& matcher, const TokenSet& mask,
                              const std::string& where) {
  const Vocabulary& vocabulary = masker.vocabulary();
  for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary.size(); ++id) {
    const bool allowed = vocabulary.is_end(id) ? matcher.complete() : matcher.can_accept(vocabulary.bytes_of(id));
    ASSERT_EQ(mask.contains(id), allowed) << where << " token " << vocabulary.bytes_of(id);
  }
}

// One walk to its end.
void walk(const Json& schema, const std::shared_ptr<const Grammar>& grammar, TokenMasker& masker, SchemaMaker& random,
          Counts& counts) {
  Matcher matcher(grammar);
  std::string text;
  for (int steps = 0;; ++steps) {
    ASSERT_LT(steps, kStepsToEnd) << schema << "\n" << text;
    const auto mask = masker.mask(matcher);
    ASSERT_FALSE(mask->empty()) << schema << "\n" << text;
    if (steps < kFreeSteps && steps % 5 == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_what_trying_gives(masker, matcher, *mask, schema.dump() + "\n" + text));
    }
    if (matcher.sets().is_bound()) ++counts.tempted;
    if (!walk_one(masker, random, steps < kFreeSteps ? Pace::kAny : Pace::kHurried, matcher, text)) break;
  }
  ASSERT_TRUE(matcher.complete()) << schema << "\n" << text;
  const Json value = Json::parse(text, nullptr, false);
  ASSERT_EQ(value.is_discarded() ? "not JSON" : why_invalid(value, schema, schema), "") << schema << "\n" << text;
}

TEST(SetsProperty, EveryRandomWalkEndsInAValueOfTheSchema) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < kSetSchemas; ++seed) {
    SchemaMaker random(seed);
    SetMaker sets(random);
    const Json schema = sets.schema();
    SCOPED_TRACE(seed);
    std::shared_ptr<const Grammar> grammar;
    try {
      grammar = compile_json_schema(schema.dump());
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()).find("uniqueItems"), std::string::npos) << schema << error.what();
      ++counts.refused;
      continue;
    }
    ++counts.schemas;
    TokenMasker masker(random_vocabulary(random));
    for (int i = 0; i < kWalksOfEach; ++i) ASSERT_NO_FATAL_FAILURE(walk(schema, grammar, masker, random, counts));
  }
  EXPECT_GT(counts.schemas, kSetSchemas * 3 / 4);
  EXPECT_GT(counts.refused, 0);
  EXPECT_GT(counts.tempted, kSetSchemas);
}

}  // namespace
}  // namespace kvasir::grammar::testing
