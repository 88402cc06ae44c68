// The forward pass of every family against Hugging Face transformers, on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "backend/cpu/isa.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/make_backend.h"
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

class GoldenTest : public ::testing::TestWithParam<std::string> {};

// Every folder of fixtures whose family runs.
std::vector<std::string> all_goldens() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir(""))) {
    if (std::filesystem::exists(entry.path() / "golden.safetensors") && family_runs(entry.path()))
      out.push_back(entry.path().filename().string());
  }
  std::ranges::sort(out);
  return out;
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, GoldenTest, ::testing::ValuesIn(all_goldens()),
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
    // transformers settles ropes by the length of the prompt.
    const auto model = load_golden_for(GetParam(), *backend, std::ssize(golden.tokens));
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

// Prefill in one batch, in chunks, and token by token as in decoding: the same bits.
TEST_P(GoldenTest, ChunksAndSingleTokensChangeNothing) {
  const Golden golden = read_golden(GetParam());
  const auto backend = make_backend({"cpu", 2, "auto"});
  const auto model = load_golden_for(GetParam(), *backend, std::ssize(golden.tokens));
  const std::vector<float> whole = forward(*model, *backend, golden.tokens);
  for (const Position chunk : {1, 7, 23}) {
    ASSERT_EQ(forward(*model, *backend, golden.tokens, uniform_policy(KvFormat::kF32), chunk), whole) << chunk;
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
