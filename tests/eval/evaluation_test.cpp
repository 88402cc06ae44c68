// Whole evaluations with the shipped models: the numbers against transformers' and against each other, and that
// nothing but the plan decides them.
#include "eval/evaluation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/make_backend.h"
#include "base/error.h"
#include "eval/policy_engine.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

class EvaluationTest : public ::testing::Test {
 protected:
  ~EvaluationTest() override { std::filesystem::remove(file_); }

  // What was loaded before stays, for evaluations that still have engines on it.
  void load(const std::string& name, const BackendOptions& how = {"cpu", 1, "auto"}) {
    if (backend_ != nullptr) before_.emplace_back(std::move(backend_), std::move(model_));
    backend_ = make_backend(how);
    model_ = load_model(source_dir() / "models" / name, *backend_, {64, {}});
  }

  std::vector<TokenId> held_out(size_t tokens) const {
    std::ifstream file(source_dir() / "models/held-out.txt");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::vector<TokenId> out = tokenizer_.encode(text.substr(0, tokens * 8), Tokenizer::Specials::kParse);
    out.resize(tokens);
    return out;
  }

  EvalPlan plan(const std::vector<std::string>& policies, size_t tokens = 500, std::int64_t context = 128) const {
    return {TextWindows(held_out(tokens), {context, 0, {0}}), with_reference(policies), std::nullopt, std::nullopt};
  }

  Evaluation make(EvalPlan of, const EngineConfig& base = {}) {
    return {*backend_, *model_, tokenizer_, std::move(of), base};
  }

  static void expect_same(const Evaluation& a, const Evaluation& b) {
    ASSERT_EQ(a.progress().size(), b.progress().size());
    for (size_t i = 0; i < a.progress().size(); ++i) {
      const PolicyProgress& one = a.progress()[i];
      const PolicyProgress& other = b.progress()[i];
      EXPECT_EQ(one.quality.rows, other.quality.rows) << i;
      EXPECT_EQ(one.quality.surprise, other.quality.surprise) << i;  // bit for bit
      EXPECT_EQ(one.quality.kl, other.quality.kl) << i;
      EXPECT_EQ(one.quality.same_top, other.quality.same_top) << i;
      EXPECT_EQ(one.quality.kl_99(), other.quality.kl_99()) << i;
      EXPECT_EQ(one.found, other.found) << i;
    }
  }

  Tokenizer tokenizer_ = Tokenizer::load(source_dir() / "models/tales");
  std::vector<std::pair<std::unique_ptr<Backend>, std::unique_ptr<Model>>> before_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("kvasir_eval_" + std::to_string(::getpid()) + ".json");
};

TEST_F(EvaluationTest, PerplexityIsThatOfTransformers) {
  load("tales", {"cpu", 1, "auto", ActivationPrecision::kF32});
  nlohmann::json golden;
  std::ifstream(golden_dir("tales.json")) >> golden;
  auto tokens = golden["held_out"].get<std::vector<TokenId>>();
  const std::vector<TokenId> opening{tokens.front()};
  tokens.erase(tokens.begin());
  EvalPlan of{TextWindows(tokens, {1024, 0, opening}), with_reference({}), std::nullopt, std::nullopt};
  Evaluation evaluation = make(std::move(of));
  evaluation.run({});
  EXPECT_EQ(evaluation.progress()[0].quality.rows, 1023);
  EXPECT_NEAR(std::log(evaluation.progress()[0].quality.perplexity()), golden["held_out_loss"].get<double>(), 1e-4);
}

// The first half of each window, 64 of 128 tokens, is read as it would be without; behind it tokens are missing. A
// policy that evicts takes other steps than the reference, and the same ones whatever the batch.
TEST_F(EvaluationTest, PoliciesThatEvictTokensAreReadBesideTheReference) {
  load("tales");
  const std::vector<std::string> policies{"f32, evict=h2o:50%", "f32, evict=h2o:25%", "f32, evict=snapkv:200"};
  Evaluation evaluation = make(plan(policies));
  evaluation.run({});
  const auto& progress = evaluation.progress();
  for (const PolicyProgress& one : progress) EXPECT_EQ(one.quality.rows, progress[0].quality.rows);
  EXPECT_GT(progress[1].quality.kl, 0);
  EXPECT_GT(progress[2].quality.kl, progress[1].quality.kl);
  EXPECT_EQ(progress[3].quality.kl, 0);  // its budget is never outgrown
  EngineConfig small;
  small.scheduler.max_batch_tokens = 40;
  Evaluation in_small_steps = make(plan(policies), small);
  in_small_steps.run({});
  expect_same(evaluation, in_small_steps);
}

TEST_F(EvaluationTest, ASecondReaderOfTheReferenceDivergesByExactlyNothing) {
  load("tales-draft");
  Reader one(*backend_, *model_, with_policy({}, "f32"), 100);
  Reader other(*backend_, *model_, with_policy({}, "f32"), 100);
  const std::vector<TokenId> text = held_out(90);
  one.open(text, 1);
  other.open(text, 1);
  std::map<Position, std::vector<float>> rows;
  while (one.step([&](Position at, std::span<const float> row) { rows[at] = {row.begin(), row.end()}; })) {
  }
  int judged = 0;
  const auto judge = [&](Position at, std::span<const float> row) {
    const RowComparison compared = compare_rows(rows.at(at), row, text[static_cast<size_t>(at)]);
    EXPECT_EQ(compared.kl, 0.0);
    EXPECT_TRUE(compared.same_top);
    ++judged;
  };
  while (other.step(judge)) {
  }
  EXPECT_EQ(judged, 89);
}

TEST_F(EvaluationTest, CoarserCachesDivergeMore) {
  load("tales-draft");
  Evaluation evaluation = make(plan({"f16", "bf16", "bf16, window=16"}));
  evaluation.run({});
  const auto& got = evaluation.progress();
  EXPECT_EQ(got[0].quality.kl, 0.0);
  EXPECT_EQ(got[0].quality.same_top, 500);
  EXPECT_GT(got[1].quality.kl, 0.0);
  EXPECT_GT(got[2].quality.kl, got[1].quality.kl);
  EXPECT_GT(got[3].quality.kl, 100 * got[2].quality.kl);
  EXPECT_GT(got[3].quality.surprise, got[0].quality.surprise);
  EXPECT_LT(got[3].quality.top_agreement(), got[2].quality.top_agreement());
  const EngineConfig f16 = evaluation.configs()[1];
  EXPECT_EQ(cache_bytes(*model_, f16, 128), 128 * 512);
  EXPECT_EQ(cache_bytes(*model_, evaluation.configs()[0], 128), 128 * 1024);
  EXPECT_EQ(cache_bytes(*model_, evaluation.configs()[3], 128), 16 * 512);  // the last block alone
}

TEST_F(EvaluationTest, NeitherThreadsNorChunksNorBlocksDecideANumber) {
  load("tales-draft");
  Evaluation expected = make(plan({"bf16"}, 300));
  expected.run({});
  EngineConfig base;
  base.scheduler.max_batch_tokens = 17;
  base.block_tokens = 5;
  Evaluation cut = make(plan({"bf16"}, 300), base);
  cut.run({});
  expect_same(cut, expected);
  load("tales-draft", {"cpu", 3, "auto"});
  Evaluation threads = make(plan({"bf16"}, 300));
  threads.run({});
  expect_same(threads, expected);
}

TEST_F(EvaluationTest, ARunThatWasStoppedAnywhereGoesOnAndGivesTheSameNumbers) {
  load("tales-draft");
  EvalPlan of = plan({"f16", "bf16"}, 300);
  of.needles = NeedlePlan{.context = 128, .depths = 2, .cases = 1, .candidates = 3, .opening = {0}};
  Evaluation whole = make(of);
  whole.run({});
  of.resume = file_;
  struct Stop {};
  for (int stops = 0;; ++stops) {
    ASSERT_LT(stops, 20);
    Evaluation part = make(of);
    try {
      part.run([](auto, auto, const auto&) { throw Stop{}; });  // after every window and every needle
    } catch (const Stop&) {
      continue;
    }
    EXPECT_EQ(stops, 3 + 3 * 2);  // windows, and each policy's needles
    expect_same(part, whole);
    break;
  }
}

TEST_F(EvaluationTest, APolicyThatIsAddedLaterReadsAloneWhatTheOthersHaveRead) {
  load("tales-draft");
  Evaluation whole = make(plan({"f16", "bf16"}, 300));
  whole.run({});
  EvalPlan of = plan({"f16"}, 300);
  of.resume = file_;
  make(of).run({});
  of.policies = with_reference({"f16", "bf16"});
  Evaluation more = make(of);
  int steps = 0;
  more.run([&](auto, auto, const auto&) { ++steps; });
  EXPECT_EQ(steps, 3);
  expect_same(more, whole);
  of.policies = with_reference({"bf16"});
  Evaluation again = make(of);
  again.run([](auto, auto, const auto&) { FAIL() << "all was done"; });
  of.policies = with_reference({"f16"});  // still there
  make(of).run([](auto, auto, const auto&) { FAIL() << "all was done"; });
}

TEST_F(EvaluationTest, AFileOfSomethingElseIsRefused) {
  load("tales-draft");
  EvalPlan of = plan({"f16"}, 200);
  of.resume = file_;
  make(of).run({});
  EvalPlan other_text = plan({"f16"}, 201);
  other_text.resume = file_;
  EXPECT_THROW(make(other_text), Error);
  EvalPlan other_windows = plan({"f16"}, 200, 64);
  other_windows.resume = file_;
  EXPECT_THROW(make(other_windows), Error);
  load("tales");
  EXPECT_THROW(make(of), Error);
  load("tales-draft");
  make(of);
  for (const char* wrong : {"", "{", "{}", "[1]", R"({"kvasir_eval": 2})"}) {
    std::ofstream(file_) << wrong;
    EXPECT_THROW(make(of), Error) << wrong;
  }
}

TEST_F(EvaluationTest, PoliciesAreNamedOnceAndNonsenseIsRefused) {
  EXPECT_EQ(with_reference({"f16", " k=f16 ,v=f16", "f32"}), (std::vector<std::string>{"f32", "f16"}));
  EXPECT_THROW(with_reference({"f17"}), Error);
  EXPECT_THROW(with_policy({}, "window=x"), Error);
  EXPECT_GE(every_format().size(), 3U);
}

}  // namespace
}  // namespace kvasir::testing
