// Calibrated directions: what they must do by the mathematics, and what they do for a model.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/make_backend.h"
#include "layout/kv_policy.h"
#include "support/far_backend.h"
#include "support/fixtures.h"
#include "support/forward.h"
#include "support/some_basis.h"
#include "tune/rank_tuner.h"

namespace kvasir::testing {
namespace {

Square moments_of(const std::vector<std::vector<double>>& rows) {
  const int dim = static_cast<int>(rows.front().size());
  Square out(dim);
  for (const std::vector<double>& row : rows) {
    for (int i = 0; i < dim; ++i) {
      for (int j = 0; j < dim; ++j) {
        out(i, j) += row[static_cast<size_t>(i)] * row[static_cast<size_t>(j)] / static_cast<double>(rows.size());
      }
    }
  }
  return out;
}

// Rows of noise, each number times its own size.
std::vector<std::vector<double>> rows_of(const std::vector<double>& sizes, std::uint64_t seed) {
  std::vector<std::vector<double>> out;
  for (std::uint64_t row = 0; row < 400; ++row) {
    out.emplace_back();
    for (size_t i = 0; i < sizes.size(); ++i) {
      out.back().push_back(sizes[i] * static_cast<double>(noise(seed, row * 100 + i)));
    }
  }
  return out;
}

// q^T (queries keys^T) k over the first `rank` columns.
double score(const KvBasis::Layer& layer, const std::vector<double>& q, const std::vector<double>& k, size_t rank) {
  const size_t dim = q.size();
  double sum = 0;
  for (size_t column = 0; column < rank; ++column) {
    double a = 0;
    double b = 0;
    for (size_t i = 0; i < dim; ++i) {
      a += q[i] * static_cast<double>(layer.queries[i * dim + column]);
      b += k[i] * static_cast<double>(layer.keys[i * dim + column]);
    }
    sum += a * b;
  }
  return sum;
}

double plain_score(const std::vector<double>& q, const std::vector<double>& k) {
  double sum = 0;
  for (size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
  return sum;
}

KvBasis::Layer basis_from(const std::vector<std::vector<double>>& q, const std::vector<std::vector<double>>& k) {
  HeadMoments head(static_cast<int>(q.front().size()));
  head.queries = moments_of(q);
  head.keys = moments_of(k);
  head.outputs = moments_of(k);
  return basis_of({{head}}).layers.at(0);
}

double score_error(const KvBasis::Layer& layer, const std::vector<std::vector<double>>& q,
                   const std::vector<std::vector<double>>& k, size_t rank) {
  double error = 0;
  for (size_t i = 0; i < q.size(); ++i) {
    const auto& key = k[(i * 7 + 3) % k.size()];
    error += std::pow(score(layer, q[i], key, rank) - plain_score(q[i], key), 2);
  }
  return error;
}

TEST(RankBasis, FullRankLeavesScoresAsTheyAre) {
  const auto q = rows_of({1, 2, 3, 0.5, 1, 1e-3}, 1);
  const auto k = rows_of({5, 1, 0.1, 2, 1e-2, 3}, 2);
  const KvBasis::Layer layer = basis_from(q, k);
  for (size_t i = 0; i < q.size(); ++i) {
    EXPECT_NEAR(score(layer, q[i], k[i], 6), plain_score(q[i], k[i]), 1e-4);
  }
}

// Channel 0 is large in keys and never asked for; channel 3 is small and asked for always.
TEST(RankBasis, WhatQueriesAskForCountsNotWhatIsLarge) {
  const auto q = rows_of({1e-4, 1, 1, 50, 1, 1}, 1);
  const auto k = rows_of({100, 1, 1, 0.9, 0.1, 0.1}, 2);
  const KvBasis::Layer layer = basis_from(q, k);
  EXPECT_EQ(layer.channels.front(), 3);
  double energy = 0;
  for (size_t i = 0; i < q.size(); ++i) energy += std::pow(plain_score(q[i], k[(i * 7 + 3) % k.size()]), 2);
  EXPECT_LT(score_error(layer, q, k, 1), 0.01 * energy);
  double last = energy;
  for (size_t rank = 1; rank <= 6; ++rank) {
    const double error = score_error(layer, q, k, rank);
    EXPECT_LT(error, last) << rank;
    last = error;
  }
}

TEST(RankBasis, KeysOfFewDirectionsNeedNoMore) {
  std::vector<std::vector<double>> k;
  for (const std::vector<double>& two : rows_of({1, 3}, 5)) {
    k.push_back({two[0], two[1], two[0] + two[1], two[0] - 2 * two[1], 3 * two[1]});
  }
  const auto q = rows_of({1, 1, 2, 1, 0.3}, 6);
  const KvBasis::Layer layer = basis_from(q, k);
  for (size_t i = 0; i < q.size(); ++i) {
    EXPECT_NEAR(score(layer, q[i], k[i], 2), plain_score(q[i], k[i]), 1e-3) << i;
  }
  // Values: an orthonormal basis whose first two columns span them.
  for (const std::vector<double>& row : k) {
    double squares = 0;
    double kept = 0;
    for (size_t i = 0; i < 5; ++i) squares += row[i] * row[i];
    for (size_t column = 0; column < 2; ++column) {
      double part = 0;
      for (size_t i = 0; i < 5; ++i) part += row[i] * static_cast<double>(layer.values[i * 5 + column]);
      kept += part * part;
    }
    EXPECT_NEAR(kept, squares, 1e-5 * squares + 1e-12);
  }
}

TEST(RankBasis, HeadsThatNeverSaidAnythingHaveFiniteDirections) {
  const KvBasis basis = basis_of({{HeadMoments(4), HeadMoments(4)}});
  for (const std::vector<float>* numbers :
       {&basis.layers[0].keys, &basis.layers[0].queries, &basis.layers[0].values}) {
    EXPECT_EQ(numbers->size(), 2U * 4 * 4);
    for (const float value : *numbers) EXPECT_TRUE(std::isfinite(value));
  }
}

class RankTunerTest : public ::testing::Test {
 protected:
  static constexpr int kTokens = 1500;

  RankTunerTest() {
    const std::filesystem::path folder = source_dir() / "models/tales";
    const ModelSpec config = load_config(folder);
    for (int i = 0; i < kTokens; ++i) text_.push_back((i * i / 7 + i * 31) % 400 + 20);
    windows_.emplace(text_, TextWindows::Cut{256, 0, {}});
    const auto calibrated = [&](int threads) {
      auto far = std::make_unique<FarBackend>(make_backend({"cpu", threads, "auto", ActivationPrecision::kF32}));
      RankRecorder recorder(std::move(far), config);
      const auto model = load_model(folder, recorder, {64, {}});
      return tune_rank(recorder, *model, *windows_, [](std::int64_t) {});
    };
    basis_ = calibrated(1);
    with_two_threads_ = calibrated(2);
    model_ = load_model(folder, *backend_, {1024, {}});
  }

  double divergence(const KvBasis& basis, const std::string& policy) {
    model_->use_basis(basis);
    const std::vector<TokenId> tokens(text_.begin(), text_.begin() + 200);
    const std::vector<float> expected = forward(*model_, *backend_, tokens);
    const std::vector<float> got = forward(*model_, *backend_, tokens, parse_kv_policy(policy, "test"));
    double error = 0;
    for (size_t i = 0; i < got.size(); ++i) error += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    return error / static_cast<double>(got.size());
  }

  std::vector<TokenId> text_;
  std::optional<TextWindows> windows_;
  std::unique_ptr<Backend> backend_ = make_backend({"cpu", 2, "auto", ActivationPrecision::kF32});
  std::unique_ptr<Model> model_;
  KvBasis basis_;
  KvBasis with_two_threads_;
};

TEST_F(RankTunerTest, CalibratedDirectionsAreBetterThanOthersAndTheSameForAnyThreads) {
  EXPECT_EQ(basis_.layers, with_two_threads_.layers);
  const int dim = model_->config().attention(0).kv.k_dim;
  const KvBasis other = some_basis(model_->config());
  const std::string half = std::to_string(dim / 2);
  for (const std::string& rank : {"rank=k:" + half, "rank=v:" + half, "rank=k:" + half + "/v:" + half}) {
    const double tuned = divergence(basis_, "f32, " + rank);
    EXPECT_LT(tuned, 0.25 * divergence(other, "f32, " + rank)) << rank;
    EXPECT_GT(tuned, 0) << rank;
  }
  EXPECT_LT(divergence(basis_, "f32, channels=60%"), 0.5 * divergence(other, "f32, channels=60%"));
  const std::string all = std::to_string(dim);
  EXPECT_LT(divergence(basis_, "f32, rank=k:" + all + "/v:" + all), 1e-6);
}

}  // namespace
}  // namespace kvasir::testing
