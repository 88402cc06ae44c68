// The forward pass of every family against Hugging Face transformers, on every backend.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/isa.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/make_backend.h"
#include "base/error.h"
#include "model/safetensors.h"
#include "support/fixtures.h"
#include "support/forward.h"
#include "support/random_data.h"

namespace kvasir::testing {
namespace {

struct Golden {
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // [tokens][vocab]
};

Golden read_golden(const std::string& name) {
  const SafetensorsFile file(golden_dir(name) / "golden.safetensors");
  Golden golden;
  const auto read = [&file](const char* tensor, auto& into) {
    const auto bytes = file.tensors.find(tensor)->second.bytes;
    into.resize(bytes.size() / sizeof into[0]);
    std::memcpy(into.data(), bytes.data(), bytes.size());
  };
  read("tokens", golden.tokens);
  read("logits", golden.logits);
  return golden;
}

// Whether the backend has no kernels for such a model, and says so.
bool refused(const std::string& name, const Backend& backend) {
  try {
    check_limits(load_config(golden_dir(name)), backend, name);
    return false;
  } catch (const Error&) {
    return true;
  }
}

class GoldenTest : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(
    HuggingFace, GoldenTest,
    ::testing::Values("mha", "gqa", "mqa_tied", "odd_head_dim", "narrow_head", "biases", "rope_llama3", "rope_linear",
                      "rope_yarn", "rope_yarn_tuned", "rope_yarn_mscale", "bf16", "f16_tied", "gqa_sharded",
                      "mistral_full", "mistral_tied", "mistral_window", "mistral_window_tied", "qwen2", "qwen2_tied",
                      "qwen2_window", "qwen2_layer_types", "qwen3", "qwen3_bias", "qwen3_tied", "qwen3_window",
                      "qwen3_default_head_dim", "qwen3_moe", "qwen3_moe_dense_layers", "qwen3_moe_window", "mixtral",
                      "mixtral_window", "olmoe", "olmoe_normalized", "gemma2", "gemma2_uncapped", "gemma3",
                      "gemma3_softcap", "olmo2", "olmo2_bias", "olmo3", "exaone4", "exaone4_hybrid", "granite",
                      "granite_bias", "seed_oss", "seed_oss_out_bias", "smollm3", "smollm3_listed", "cohere2",
                      "cohere2_bias", "starcoder2", "starcoder2_window"),
    [](const auto& golden) { return golden.param; });

TEST_P(GoldenTest, EveryBackendMatchesTransformers) {
  const Golden golden = read_golden(GetParam());
  std::vector<BackendOptions> backends{{"ref", 1, "auto", ActivationPrecision::kF32}};
  for (const Isa isa : available_isas()) {
    backends.push_back({"cpu", 2, std::string(name_of(isa)), ActivationPrecision::kF32});
  }
  if (!cuda_devices().empty()) backends.push_back({"cuda:0", 1, "auto", ActivationPrecision::kF32});
  for (const BackendOptions& options : backends) {
    const auto backend = make_backend(options);
    if (refused(GetParam(), *backend)) {
      EXPECT_EQ(options.device, "cuda:0");
      continue;
    }
    const auto model = load_golden(GetParam(), *backend);
    const std::vector<float> logits = forward(*model, *backend, golden.tokens);
    ASSERT_EQ(logits.size(), golden.logits.size());
    const auto vocab = static_cast<size_t>(model->config().vocab);
    for (size_t row = 0; row < golden.tokens.size(); ++row) {
      double largest = 0;
      double worst = 0;
      for (size_t i = row * vocab; i < (row + 1) * vocab; ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(golden.logits[i])));
        worst = std::max(worst, std::abs(static_cast<double>(golden.logits[i]) - logits[i]));
      }
      ASSERT_LT(worst / largest, 1e-4) << backend->description() << ", row " << row;
    }
  }
}

// Rows rounded to bf16 where the weights are: the answer moves by about as much as one rounding of an activation, and
// by the same on every backend.
TEST(GoldenBf16Test, RoundedRowsStayCloseToTransformers) {
  const Golden golden = read_golden("bf16");
  const auto exact_backend = make_backend({"ref", 1, "auto", ActivationPrecision::kF32});
  const std::vector<float> exact = forward(*load_golden("bf16", *exact_backend), *exact_backend, golden.tokens);
  for (const char* device : {"ref", "cpu"}) {
    const auto backend = make_backend({device, 2, "auto"});
    const std::vector<float> rounded = forward(*load_golden("bf16", *backend), *backend, golden.tokens);
    EXPECT_LT(relative_error(rounded, golden.logits), 2e-2) << device;
    EXPECT_GT(relative_error(rounded, exact), 1e-5) << device << " does not round";
  }
}

}  // namespace
}  // namespace kvasir::testing
