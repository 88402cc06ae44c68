// The shipped model against Hugging Face transformers, end to end through the engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "backend/make_backend.h"
#include "engine/engine.h"
#include "support/fixtures.h"
#include "support/forward.h"

namespace kvasir::testing {
namespace {

class TalesTest : public ::testing::Test {
 protected:
  TalesTest() {
    std::ifstream(golden_dir("tales.json")) >> golden_;
    config_.kv = uniform_policy(KvFormat::kF32);
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 0, "auto", ActivationPrecision::kF32});
  std::unique_ptr<Model> model_ = load_model(source_dir() / "models/tales", *backend_, {1024, {}});
  EngineConfig config_;
  nlohmann::json golden_;
};

TEST_F(TalesTest, GreedyAnswersAreThoseOfTransformers) {
  Engine engine(*backend_, *model_, config_);
  std::vector<std::vector<TokenId>> answers(golden_["cases"].size());
  for (size_t i = 0; i < answers.size(); ++i) {
    Request request;
    request.prompt = golden_["cases"][i]["prompt"].get<std::vector<TokenId>>();
    request.max_tokens = static_cast<std::int64_t>(golden_["cases"][i]["greedy"].size());
    request.sampling.temperature = 0;
    engine.submit(request, [&answers, i](const Update& update) { answers[i].push_back(update.token); });
  }
  engine.run();
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i], golden_["cases"][i]["greedy"].get<std::vector<TokenId>>()) << golden_["cases"][i]["text"];
  }
}

TEST_F(TalesTest, LogitsAreThoseOfTransformers) {
  const auto expected = golden_["last_logits"].get<std::vector<float>>();
  Engine engine(*backend_, *model_, config_);
  std::vector<float> got;
  engine.observe([&got](RequestId, Position, std::span<const float> row) { got.assign(row.begin(), row.end()); });
  Request request;
  request.prompt = golden_["cases"][0]["prompt"].get<std::vector<TokenId>>();
  request.max_tokens = 1;
  engine.submit(request, {});
  engine.run();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-3) << i;
}

TEST_F(TalesTest, LossOnHeldOutTextIsThatOfTransformers) {
  const auto tokens = golden_["held_out"].get<std::vector<TokenId>>();
  const std::vector<float> logits = forward(*model_, *backend_, tokens);
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  double loss = 0;
  for (size_t row = 0; row + 1 < tokens.size(); ++row) {
    const std::span<const float> values(logits.data() + row * vocab, vocab);
    const float top = std::ranges::max(values);
    double sum = 0;
    for (const float value : values) sum += std::exp(static_cast<double>(value) - top);
    loss += std::log(sum) + top - values[static_cast<size_t>(tokens[row + 1])];
  }
  EXPECT_NEAR(loss / static_cast<double>(tokens.size() - 1), golden_["held_out_loss"].get<double>(), 1e-4);
}

}  // namespace
}  // namespace kvasir::testing
