// Tokens that a backend draws beside its logits: the same as the engine's own, and only where nobody needs logits.
#include <gtest/gtest.h>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "engine/heard.h"
#include "engine/sampling_backend.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class DrawTest : public ::testing::Test {
 protected:
  // Five requests of different parameters at once; changed by `change`, the first.
  std::vector<std::vector<TokenId>> answers(Backend& backend, const std::function<void(Request&)>& change = {}) {
    const auto model = load_golden("gqa", backend, 64);
    Engine engine(backend, *model, {});
    std::vector<Heard> heard(5);
    const std::vector<SamplingParams> params{
        {.temperature = 0},
        {.temperature = 1.0F, .seed = 3},
        {.temperature = 1.3F, .top_k = 5, .seed = 4},
        {.temperature = 0.9F, .top_p = 0.7F, .seed = 5},
        {.temperature = 1.5F, .top_k = 40, .top_p = 0.8F, .min_p = 0.05F, .seed = 6}};
    for (size_t i = 0; i < heard.size(); ++i) {
      Request request;
      for (size_t t = 0; t < 5 + 9 * i; ++t) request.prompt.push_back(static_cast<TokenId>((7 * t + i) % 60));
      request.max_tokens = 12;
      request.sampling = params[i];
      if (i == 0 && change) change(request);
      engine.submit(request, into(heard[i]));
    }
    engine.run();
    std::vector<std::vector<TokenId>> out;
    for (const Heard& one : heard) out.push_back(one.tokens);
    failure_ = heard[1].record.failure;
    return out;
  }

  std::unique_ptr<Backend> plain_ = make_backend({"cpu", 1, "auto"});
  SamplingBackend drawing_{make_backend({"cpu", 1, "auto"})};
  std::string failure_;
};

TEST_F(DrawTest, TheBackendsTokensAreTheEngines) {
  const auto expected = answers(*plain_);
  EXPECT_EQ(answers(drawing_), expected);
  EXPECT_EQ(drawing_.drawn_, 5 * 12);
  EXPECT_EQ(drawing_.downloaded_, 0U);
}

TEST_F(DrawTest, OneWhoNeedsLogitsGetsThem) {
  const std::vector<std::function<void(Request&)>> changes{
      [](Request& request) { request.logprobs = 2; },
      [](Request& request) { request.sampling.repetition_penalty = 1.5F; },
      [](Request& request) {
        request.sampling.logit_bias = {{3, 5.0F}};
      },
      [](Request& request) {
        request.min_tokens = 12;
        request.stop_tokens = {1, 2, 3, 4, 5, 6};
      }};
  for (const auto& change : changes) {
    const auto expected = answers(*plain_, change);
    drawing_.drawn_ = 0;
    EXPECT_EQ(answers(drawing_, change), expected);
    EXPECT_LT(drawing_.drawn_, 5 * 12);  // some steps after the first has ended
    EXPECT_GT(drawing_.downloaded_, 0U);
  }
}

TEST_F(DrawTest, LogitsThatAreNoNumbersEndTheRequest) {
  drawing_.broken_ = true;
  EXPECT_TRUE(answers(drawing_)[1].empty());
  EXPECT_NE(failure_.find("not numbers"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::testing
