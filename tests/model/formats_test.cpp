// What a KV format costs the shipped model: the divergence of its next-token distributions from those over f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "backend/make_backend.h"
#include "layout/codec.h"
#include "layout/kv_policy.h"
#include "support/fixtures.h"
#include "support/forward.h"

namespace kvasir::testing {
namespace {

std::vector<double> log_softmax(std::span<const float> logits) {
  const double top = std::ranges::max(logits);
  double sum = 0;
  for (const float value : logits) sum += std::exp(value - top);
  std::vector<double> out;
  for (const float value : logits) out.push_back(value - top - std::log(sum));
  return out;
}

class FormatsTest : public ::testing::Test {
 protected:
  FormatsTest() {
    nlohmann::json golden;
    std::ifstream(golden_dir("tales.json")) >> golden;
    tokens_ = golden["held_out"].get<std::vector<TokenId>>();
    expected_ = forward(*model_, *backend_, tokens_);
  }

  // Mean over all positions, in nats.
  double divergence(const KvPolicy& policy) {
    const std::vector<float> got = forward(*model_, *backend_, tokens_, policy);
    const auto vocab = static_cast<size_t>(model_->config().vocab);
    double sum = 0;
    for (size_t row = 0; row < tokens_.size(); ++row) {
      const std::vector<double> p = log_softmax({expected_.data() + row * vocab, vocab});
      const std::vector<double> q = log_softmax({got.data() + row * vocab, vocab});
      for (size_t i = 0; i < vocab; ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
    }
    return sum / static_cast<double>(tokens_.size());
  }

  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 0, "auto", ActivationPrecision::kF32});
  std::unique_ptr<Model> model_ = load_model(source_dir() / "models/tales", *backend_, {1024, {}});
  std::vector<TokenId> tokens_;
  std::vector<float> expected_;
};

struct Limit {
  KvFormat format;
  double divergence;
};

// In the order of their quality; each limit is a little above what was measured.
TEST_F(FormatsTest, DivergenceFromF32StaysBelowWhatEachFormatPromises) {
  double last = -1;
  for (const Limit& limit : std::vector<Limit>{{KvFormat::kF32, 1e-12},
                                               {KvFormat::kF16, 1e-6},
                                               {KvFormat::kBF16, 5e-5},
                                               {KvFormat::kInt8, 3e-4},
                                               {KvFormat::kE4M3, 5e-3},
                                               {KvFormat::kE5M2, 2e-2},
                                               {KvFormat::kInt4, 4e-2},
                                               {KvFormat::kInt2, 0.6}}) {
    const double got = divergence(uniform_policy(limit.format));
    EXPECT_LT(got, limit.divergence) << format_name(limit.format);
    EXPECT_GT(got, last) << format_name(limit.format);
    last = got;
  }
}

// K and V apart: keys in more bits than values are better than the other way round.
TEST_F(FormatsTest, KeysNeedMoreBitsThanValues) {
  EXPECT_LT(divergence({KvFormat::kInt8, KvFormat::kInt4, {}}), divergence({KvFormat::kInt4, KvFormat::kInt8, {}}));
}

// Keys need their numbers more than values do; each limit is a little above what was measured.
TEST_F(FormatsTest, PrunedRowsCostWhatTheyPromise) {
  struct Pruned {
    KvFormat k, v;
    double divergence;
  };
  double last = 0;
  for (const Pruned& pruned : std::vector<Pruned>{{KvFormat::kF16, KvFormat::kTop50, 0.09},
                                                  {KvFormat::kTop50, KvFormat::kF16, 0.22},
                                                  {KvFormat::kTop50, KvFormat::kTop50, 0.3},
                                                  {KvFormat::kF16, KvFormat::kTop25, 0.42},
                                                  {KvFormat::kTop25, KvFormat::kF16, 1.4},
                                                  {KvFormat::kTop25, KvFormat::kTop25, 1.8}}) {
    const double got = divergence({pruned.k, pruned.v, {}});
    EXPECT_LT(got, pruned.divergence) << format_name(pruned.k) << " " << format_name(pruned.v);
    EXPECT_GT(got, last) << format_name(pruned.k) << " " << format_name(pruned.v);
    last = got;
  }
}

}  // namespace
}  // namespace kvasir::testing
