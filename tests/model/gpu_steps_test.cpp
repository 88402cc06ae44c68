// Decode steps on a GPU are launched as graphs once they come again: with the bits of op after op.
#include <gtest/gtest.h>

#include <map>

#include "backend/cuda/cuda_backend.h"
#include "backend/make_backend.h"
#include "backend/profile_backend.h"
#include "engine/engine.h"
#include "model/known_models.h"
#include "model/random_model.h"
#include "support/fixtures.h"

namespace kvasir::testing {
namespace {

using Logits = std::map<std::pair<RequestId, Position>, std::vector<float>>;

// Requests of different length that come and go, over blocks and splits.
Logits answers(Backend& backend, const ModelSpec& spec, const std::string& kv) {
  const auto model = make_random_model(spec, backend, {64, {}}, 3);
  EngineConfig config;
  config.kv = parse_kv_policy(kv, "kv");
  Engine engine(backend, *model, config);
  Logits out;
  engine.observe([&out](RequestId id, Position position, std::span<const float> logits) {
    out[{id, position}] = {logits.begin(), logits.end()};
  });
  for (size_t i = 0; i < 5; ++i) {
    Request request;
    for (size_t t = 0; t < 230 + 9 * i; ++t) request.prompt.push_back(static_cast<TokenId>((7 * t + i) % 300));
    request.max_tokens = 40 + 8 * static_cast<std::int64_t>(i);
    request.sampling.temperature = 0;
    engine.submit(request, {});
  }
  engine.run();
  return out;
}

class GpuStepsTest : public ::testing::TestWithParam<const char*> {};

std::vector<const char*> policies_on_gpu() {
  if (cuda_devices().empty()) return {};
  return {"f32", "bf16", "f16", "int8", "int4", "fp8_e4m3", "f16, window=100", "f16, window=100, sinks=4"};
}

INSTANTIATE_TEST_SUITE_P(Policies, GpuStepsTest, ::testing::ValuesIn(policies_on_gpu()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GpuStepsTest);

void expect_the_same_as_graphs(const ModelSpec& spec, const std::string& kv) {
  const auto graphs = make_backend({"cuda", 1, "auto"});
  const auto plain = make_backend({"cuda", 1, "auto"});
  ProfileBackend op_by_op(*plain);  // waits for each op: nothing is left to be launched together
  const Logits expected = answers(op_by_op, spec, kv);
  ASSERT_EQ(expected.size(), 5U * 56U);
  EXPECT_EQ(answers(*graphs, spec, kv), expected);
}

TEST_P(GpuStepsTest, AreTheSameAsGraphs) {
  expect_the_same_as_graphs(
      parse_shape("layers=3,hidden=256,ffn=520,heads=8,kv_heads=2,head_dim=64,vocab=300,context=1024"), GetParam());
}

// Fixtures whose layers have what others do not: experts, latents, rules of scores, learned positions, inputs of each
// layer, states.
class GpuStepsOfFamiliesTest : public ::testing::TestWithParam<const char*> {};

std::vector<const char*> families_on_gpu() {
  if (cuda_devices().empty()) return {};
  return {"qwen3_moe",        "gpt_oss",    "deepseek_v3", "gemma2",    "gemma4_ple_shared",
          "llama4",           "ministral3", "falcon_rw",   "gpt2",      "qwen3_next",
          "granitemoehybrid", "lfm2",       "nemotron_h",  "falcon_h1", "kimi_linear"};
}

INSTANTIATE_TEST_SUITE_P(Families, GpuStepsOfFamiliesTest, ::testing::ValuesIn(families_on_gpu()),
                         [](const auto& family) { return std::string(family.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GpuStepsOfFamiliesTest);

TEST_P(GpuStepsOfFamiliesTest, AreTheSameAsGraphs) {
  ModelSpec spec = load_config(golden_dir(GetParam()));
  spec.vocab = 300;
  spec.context = 1024;
  if (spec.positions > 0) spec.positions = 1024;
  spec.eos.clear();
  spec.tied_embeddings = false;  // random weights would repeat what they read
  expect_the_same_as_graphs(spec, "bf16");
}

}  // namespace
}  // namespace kvasir::testing
