#include "eval/needle.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/make_backend.h"
#include "base/error.h"
#include "eval/policy_engine.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class NeedleTest : public ::testing::Test {
 protected:
  NeedleTest() {
    plan_.context = 300;
    plan_.opening = {0};
  }
  std::string text(std::span<const TokenId> tokens) const {
    return tokenizer_.decode(tokens, Tokenizer::SkipSpecials::kSkip);
  }

  Tokenizer tokenizer_ = Tokenizer::load(source_dir() / "models/tales");
  NeedlePlan plan_;
};

TEST_F(NeedleTest, ACaseHidesItsNameAtItsDepthAmongOthersOfItsForm) {
  double before = -1;
  for (int i = 0; i < 5; ++i) {
    const NeedleCase one = make_needle_case(tokenizer_, plan_, i);
    EXPECT_LE(one.prompt.size() + one.candidates.front().size(), 300U);
    EXPECT_GE(one.prompt.size() + one.candidates.front().size(), 270U);
    EXPECT_EQ(one.prompt.front(), 0);
    ASSERT_EQ(one.candidates.size(), 10U);
    for (const auto& candidate : one.candidates) {
      EXPECT_EQ(candidate.size(), one.candidates.front().size());
      EXPECT_EQ(std::ranges::count(one.candidates, candidate), 1);
      const bool hidden = text(one.prompt).find(text(candidate)) != std::string::npos;
      EXPECT_EQ(hidden, &candidate == one.candidates.data());
    }
    const auto place = static_cast<double>(text(one.prompt).find(text(one.candidates.front())));
    EXPECT_GT(place, before);
    before = place;
    EXPECT_EQ(make_needle_case(tokenizer_, plan_, i).prompt, one.prompt);
    EXPECT_NE(make_needle_case(tokenizer_, plan_, i + 5).prompt, one.prompt);
  }
}

TEST_F(NeedleTest, TooLittleRoomIsRefused) {
  plan_.context = 30;
  EXPECT_THROW(make_needle_case(tokenizer_, plan_, 0), Error);
}

TEST_F(NeedleTest, TheShippedModelFindsWhatItsCacheKeptAndNotWhatItDropped) {
  const auto backend = make_backend({"cpu", 1, "auto"});
  const auto model = load_model(source_dir() / "models/tales", *backend, {512, {}});
  Reader keeps(*backend, *model, with_policy({}, "f16"), plan_.context);
  Reader forgets(*backend, *model, with_policy({}, "f16, window=32, sinks=4"), plan_.context);
  int kept = 0;
  int forgotten = 0;
  for (const int i : {1, 2, 6, 7, 11, 12}) {  // a quarter and half of the way
    const NeedleCase one = make_needle_case(tokenizer_, plan_, i);
    kept += finds_needle(keeps, one) ? 1 : 0;
    forgotten += finds_needle(forgets, one) ? 1 : 0;
  }
  EXPECT_GE(kept, 4);
  EXPECT_LE(forgotten, 3);
}

TEST_F(NeedleTest, ALikelihoodIsTheSameWhetherItsBeginningWasFoundOrComputed) {
  const auto backend = make_backend({"cpu", 1, "auto"});
  const auto model = load_model(source_dir() / "models/tales-draft", *backend, {64, {}});
  const NeedleCase one = make_needle_case(tokenizer_, plan_, 2);
  Reader warm(*backend, *model, with_policy({}, "bf16"), plan_.context);
  for (const auto& candidate : one.candidates) {
    Reader cold(*backend, *model, with_policy({}, "bf16"), plan_.context);
    EXPECT_EQ(warm.log_likelihood(one.prompt, candidate), cold.log_likelihood(one.prompt, candidate));
  }
  EXPECT_GT(warm.engine().cache().stats().hit_tokens, 0);
}

}  // namespace
}  // namespace kvasir::testing
