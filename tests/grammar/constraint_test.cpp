#include "grammar/constraint.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "grammar_test_util.h"

namespace kvasir::grammar::testing {
namespace {

// The likeliest allowed token, for a model that would like to say `wish`.
TokenId greedy(GrammarConstraint& constraint, const Vocabulary& vocabulary, char wish) {
  std::vector<float> logits(vocabulary.size() + 3, 0.0F);  // models pad their vocabularies
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = -static_cast<float>(i % 100);
  logits[static_cast<unsigned char>(wish)] = 10.0F;
  constraint.mask(logits);
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

TEST(GrammarConstraint, KeepsAnUnwillingModelWithinTheSchema) {
  const auto vocabulary = byte_vocabulary();
  const auto masker = std::make_shared<TokenMasker>(vocabulary);
  GrammarConstraint constraint(
      compile_json_schema(R"({"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]})"), masker);
  std::string text;
  const std::string wishes = "I would say: true, of course! And so on";
  for (std::size_t i = 0; !constraint.ended(); ++i) {
    ASSERT_LT(i, 200U);
    const TokenId token = greedy(constraint, *vocabulary, wishes[i % wishes.size()]);
    constraint.accept(token);
    text += vocabulary->bytes_of(token);
  }
  EXPECT_TRUE(constraint.complete());
  EXPECT_TRUE(Json::parse(text)["ok"].is_boolean()) << text;
}

TEST(GrammarConstraint, ForbidsWithMinusInfinity) {
  const auto vocabulary = byte_vocabulary({"nul", "nullx"});
  GrammarConstraint constraint(compile_json_schema(R"({"type":"null"})"), std::make_shared<TokenMasker>(vocabulary));
  std::vector<float> logits(vocabulary->size() + 5, 1.0F);
  constraint.mask(logits);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool allowed = i == 'n' || i == ' ' || i == '\n' || i == 256;
    EXPECT_EQ(logits[i], allowed ? 1.0F : -INFINITY) << i;
  }
}

TEST(GrammarConstraint, RefusesWhatItForbids) {
  const auto vocabulary = byte_vocabulary();
  const TokenId end = vocabulary->ends().front();
  GrammarConstraint constraint(compile_json_schema(R"({"type":"null"})"), std::make_shared<TokenMasker>(vocabulary));
  EXPECT_THROW(constraint.accept('x'), Error);
  EXPECT_THROW(constraint.accept(end), Error);
  for (const char c : {'n', 'u', 'l', 'l'}) constraint.accept(c);
  GrammarConstraint fork = constraint;
  constraint.accept(end);
  EXPECT_TRUE(constraint.ended());
  EXPECT_FALSE(fork.ended());
  EXPECT_THROW(constraint.accept('x'), Error);
  std::vector<float> logits(vocabulary->size(), 1.0F);
  constraint.mask(logits);  // after the end only the end
  EXPECT_EQ(std::ranges::count(logits, 1.0F), 1);
  EXPECT_EQ(logits[static_cast<std::size_t>(end)], 1.0F);
}

TEST(GrammarConstraint, AVocabularyThatCannotSpellIsAnError) {
  const auto vocabulary =
      std::make_shared<const Vocabulary>(std::vector<std::string>{"a", "b", ""}, std::vector<TokenId>{2});
  GrammarConstraint constraint(any_json_object(), std::make_shared<TokenMasker>(vocabulary));
  std::vector<float> logits(3, 0.0F);
  EXPECT_THROW(constraint.mask(logits), Error);
}

}  // namespace
}  // namespace kvasir::grammar::testing
