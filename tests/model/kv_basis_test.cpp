// Shorter rows: the file of their directions, and what a model computes with them.
#include "model/kv_basis.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "backend/make_backend.h"
#include "base/error.h"
#include "layout/kv_policy.h"
#include "support/fixtures.h"
#include "support/forward.h"
#include "support/some_basis.h"

namespace kvasir::testing {
namespace {

Key256 some_key(std::uint8_t byte) {
  Key256 key;
  key.bytes.fill(byte);
  return key;
}

class KvBasisFileTest : public ::testing::Test {
 protected:
  std::string error_of(const std::vector<std::byte>& file) const {
    try {
      parse_kv_basis(file, config_, model_, "here");
    } catch (const Error& error) {
      EXPECT_FALSE(error.parts().fix.empty());
      return error.what();
    }
    return "no error";
  }
  std::string error_of(const KvBasis& basis) const { return error_of(kv_basis_bytes(basis, model_)); }

  // With each `from` of the header made `to`, which is as long.
  std::vector<std::byte> edited(std::string_view from, std::string_view to) const {
    std::vector<std::byte> file = kv_basis_bytes(basis_, model_);
    std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    EXPECT_EQ(from.size(), to.size());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string_view::npos) << from;
    std::memcpy(file.data() + at, to.data(), to.size());
    return file;
  }

  ModelSpec config_ = load_config(golden_dir("gqa"));
  KvBasis basis_ = some_basis(config_);
  Key256 model_ = some_key(7);
};

TEST_F(KvBasisFileTest, ComesBackAsItWas) {
  const std::vector<std::byte> file = kv_basis_bytes(basis_, model_);
  EXPECT_EQ(file, kv_basis_bytes(basis_, model_));
  const KvBasis got = parse_kv_basis(file, config_, model_, "here");
  EXPECT_EQ(got.layers, basis_.layers);
  EXPECT_EQ(got.dim, 16);
  EXPECT_EQ(got.kv_heads, 2);
  // Its name is that of all its bytes.
  KvBasis other = basis_;
  other.layers.back().values.back() += 1;
  const std::vector<std::byte> changed = kv_basis_bytes(other, model_);
  EXPECT_NE(parse_kv_basis(changed, config_, model_, "here").name, got.name);
  EXPECT_EQ(parse_kv_basis(file, config_, model_, "there").name, got.name);
}

TEST_F(KvBasisFileTest, WhatIsWrongIsAnErrorThatSaysSo) {
  EXPECT_NE(error_of(kv_basis_bytes(basis_, some_key(8))).find("another model"), std::string::npos);
  ModelSpec larger = config_;
  larger.layers.push_back(larger.layers.back());
  EXPECT_NE(error_of(some_basis(larger)).find("needs F32"), std::string::npos);
  EXPECT_NE(error_of(edited("\"values\"", "\"volume\"")).find("no tensor 'values'"), std::string::npos);
  EXPECT_NE(error_of(edited("F32", "I32")).find("'keys' is I32"), std::string::npos);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    KvBasis broken = basis_;
    broken.layers[1].queries[5] = bad;
    EXPECT_NE(error_of(broken).find("not a number"), std::string::npos);
  }
  for (const std::int32_t channel : {-1, 16, 1 << 30}) {
    KvBasis broken = basis_;
    broken.layers[0].channels[3] = channel;
    EXPECT_NE(error_of(broken).find("channels"), std::string::npos) << channel;
  }
  KvBasis twice = basis_;
  twice.layers[0].channels[16 + 3] = twice.layers[0].channels[16 + 4];
  EXPECT_NE(error_of(twice).find("channels"), std::string::npos);
}

TEST_F(KvBasisFileTest, EveryCutOffFileIsAnError) {
  const std::vector<std::byte> file = kv_basis_bytes(basis_, model_);
  for (size_t size = 0; size < file.size(); size += size < 700 ? 1 : 97) {
    EXPECT_NE(error_of(std::vector(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size))), "no error")
        << size;
  }
  EXPECT_EQ(error_of(file), "no error");
}

// Heads of 16 and of 20: with and without what 16 lanes leave over.
class ShortRowsTest : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  ShortRowsTest() {
    for (int i = 0; i < 70; ++i) tokens_.push_back((i * 13 + 5) % 60);
  }

  std::vector<float> logits(const std::string& policy) {
    return forward(*model_, *backend_, tokens_, parse_kv_policy(policy, "test"));
  }
  std::string full() const {
    const int dim = model_->config().attention(0).kv.k_dim;
    return "rank=k:" + std::to_string(dim) + "/v:" + std::to_string(dim);
  }

  std::unique_ptr<Backend> backend_ = make_backend({std::get<0>(GetParam()), 2, "auto"});
  std::unique_ptr<Model> model_ = load_golden(std::get<1>(GetParam()), *backend_, 128);
  std::vector<TokenId> tokens_;
};

INSTANTIATE_TEST_SUITE_P(Backends, ShortRowsTest,
                         ::testing::Combine(::testing::Values("ref", "cpu"),
                                            ::testing::Values("gqa", "odd_head_dim")),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param)) + "_" + std::get<1>(one.param);
                         });

TEST_P(ShortRowsTest, RowsThatStayThemselvesGiveTheSameBits) {
  model_->use_basis(identity_basis(model_->config()));
  for (const std::string format : {"f32", "f16", "int8"}) {
    for (const std::string kept : {"", ", window=20", ", window=20, sinks=4"}) {
      EXPECT_EQ(logits(format + kept + ", " + full()), logits(format + kept)) << format << kept;
    }
    EXPECT_EQ(logits(format + ", channels=100%"), logits(format));
  }
}

TEST_P(ShortRowsTest, FullRankChangesNothingButTheRounding) {
  model_->use_basis(some_basis(model_->config()));
  for (const std::string kept : {"", ", window=20, sinks=4"}) {
    const double error = relative_error(logits("f32" + kept + ", " + full()), logits("f32" + kept));
    EXPECT_LT(error, 1e-5) << kept;
    EXPECT_GT(error, 0) << kept;
  }
  const std::vector<float> whole = logits("f32");
  for (const std::string rank : {"rank=k:10", "rank=v:10", "rank=k:3/v:3"}) {
    EXPECT_GT(relative_error(logits("f32, " + rank), whole), 1e-2) << rank;
  }
}

// Channels that are left out are channels that are zero.
TEST_P(ShortRowsTest, LeftOutChannelsCountAsZero) {
  KvBasis basis = some_basis(model_->config());
  model_->use_basis(basis);
  const int dim = model_->config().attention(0).kv.k_dim;
  for (const int percent : {25, 60}) {
    const int kept = (dim * percent + 50) / 100;
    KvBasis zeros = identity_basis(model_->config());
    for (KvBasis::Layer& layer : zeros.layers) {
      for (size_t i = 0; i < layer.channels.size(); ++i) {
        const size_t rank = i % static_cast<size_t>(dim);
        if (rank < static_cast<size_t>(kept)) continue;
        const size_t row = i - rank + static_cast<size_t>(layer.channels[i]);
        std::fill_n(layer.keys.begin() + static_cast<std::ptrdiff_t>(row) * dim, dim, 0.0F);
      }
    }
    model_->use_basis(basis);
    const std::vector<float> got = logits("f32, channels=" + std::to_string(percent) + "%");
    const std::vector<float> whole = logits("f32");
    model_->use_basis(zeros);
    EXPECT_LT(relative_error(got, logits("f32, rank=k:" + std::to_string(dim))), 1e-5) << percent;
    EXPECT_GT(relative_error(got, whole), 1e-4) << percent;
  }
}

// What is far back in a stream is seen by queries that are turned a second time: they are shortened as well.
TEST_P(ShortRowsTest, SinksAreSeenThroughTheSameDirections) {
  model_->use_basis(some_basis(model_->config()));
  const std::vector<float> with = logits("f32, window=12, sinks=4, " + full());
  EXPECT_LT(relative_error(with, logits("f32, window=12, sinks=4")), 1e-5);
  EXPECT_GT(relative_error(with, logits("f32, window=12")), 1e-4);
}

}  // namespace
}  // namespace kvasir::testing
