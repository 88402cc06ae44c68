// Tokens drawn on a device from equal logits are the sampler's, whatever the parameters.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "backend/backends.h"
#include "sample/sampler.h"

namespace kvasir::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Row {
  std::vector<float> logits;
  SamplingParams params;
};

TokenId on_the_host(Row row, Position position) { return Sampler(row.params, {}).sample(row.logits, position); }

// Those that draw.
std::vector<std::string> drawing_backends() {
  std::vector<std::string> out{"ref"};
  if (!cuda_devices().empty()) out.emplace_back("cuda");
  return out;
}

class BackendSampleTest : public ::testing::TestWithParam<std::string> {
 protected:
  // All rows at once, at a position each; not taken yet.
  SampleTicket sample(const std::vector<Row>& rows, Position position) {
    const auto vocab = static_cast<int>(rows.front().logits.size());
    std::vector<float> logits;
    std::vector<SampleRule> rules;
    for (const Row& row : rows) {
      logits.insert(logits.end(), row.logits.begin(), row.logits.end());
      rules.push_back(*Sampler(row.params, {}).rule(position++));
    }
    return backend_->sample({logits.data(), static_cast<int>(rows.size()), vocab, vocab}, rules);
  }
  std::vector<TokenId> on_the_device(const std::vector<Row>& rows, Position position) {
    std::vector<TokenId> tokens(rows.size(), -2);
    backend_->take_sampled(sample(rows, position), tokens);
    return tokens;
  }

  void expect_equal(const std::vector<Row>& rows, Position position) {
    const std::vector<TokenId> tokens = on_the_device(rows, position);
    for (size_t i = 0; i < rows.size(); ++i) {
      const SamplingParams& p = rows[i].params;
      EXPECT_EQ(tokens[i], on_the_host(rows[i], position + static_cast<Position>(i)))
          << "row " << i << " of " << rows[i].logits.size() << ", temperature " << p.temperature << ", top_k "
          << p.top_k << ", top_p " << p.top_p << ", min_p " << p.min_p;
    }
  }

  static std::vector<SamplingParams> all_params() {
    std::vector<SamplingParams> out{{.temperature = 0}};
    for (const float temperature : {0.05F, 0.7F, 1.0F, 3.0F}) {
      for (const int top_k : {0, 1, 40, 2000}) {
        for (const float top_p : {1.0F, 0.95F, 0.3F, 0.0F}) {
          for (const float min_p : {0.0F, 0.02F}) {
            out.push_back(
                {.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p, .seed = out.size()});
          }
        }
      }
    }
    return out;
  }

  std::unique_ptr<Backend> backend_ =
      GetParam() == "ref" ? make_ref_backend() : make_form({Isa::kScalar, 1, Form::Device::kCuda});
};

INSTANTIATE_TEST_SUITE_P(Backends, BackendSampleTest, ::testing::ValuesIn(drawing_backends()),
                         [](const auto& device) { return device.param; });

TEST_P(BackendSampleTest, IsTheSamplersForEveryRule) {
  std::mt19937 random(5);
  for (const int vocab : {1, 7, 1000, 5003, 32000}) {
    for (const float width : {1.0F, 8.0F}) {
      std::normal_distribution<float> normal(0, width);
      std::vector<Row> rows;
      for (const SamplingParams& params : all_params()) {
        rows.push_back({std::vector<float>(static_cast<size_t>(vocab)), params});
        for (float& logit : rows.back().logits) logit = normal(random);
      }
      expect_equal(rows, 1000);
    }
  }
}

TEST_P(BackendSampleTest, EqualAndForbiddenTokens) {
  std::mt19937 random(6);
  for (const int kind : {0, 1, 2, 3}) {
    std::vector<Row> rows;
    for (const SamplingParams& params : all_params()) {
      rows.push_back({std::vector<float>(3001), params});
      for (float& logit : rows.back().logits) {
        const auto number = static_cast<float>(random() % 4);
        logit = kind == 0   ? 0.0F
                : kind == 1 ? number
                : kind == 2 ? (number > 0 ? -kInfinity : -0.0F)
                            : number * 1e30F;
      }
      rows.back().logits[2000] = kind == 3 ? -1e30F : 0.0F;
    }
    expect_equal(rows, 7);
  }
}

TEST_P(BackendSampleTest, LogitsThatAreNoNumbersAreTold) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Row> rows(6, {std::vector<float>(500, 1.0F), {.temperature = 1.0F}});
  rows[1].logits[499] = nan;
  rows[2].logits[0] = kInfinity;
  rows[3].logits.assign(500, -kInfinity);
  rows[4].logits[7] = -kInfinity;  // that one is forbidden, no more
  rows[5].params.temperature = 0;
  rows[5].logits[3] = nan;
  const std::vector<TokenId> tokens = on_the_device(rows, 3);
  for (const size_t bad : {1U, 2U, 3U, 5U}) EXPECT_EQ(tokens[bad], -1) << bad;
  for (const size_t good : {0U, 4U}) EXPECT_EQ(tokens[good], on_the_host(rows[good], 3 + Position(good))) << good;
}

std::vector<Row> some_rows(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 4);
  std::vector<Row> rows(static_cast<size_t>(count), {std::vector<float>(60), {.temperature = 1.0F, .seed = seed}});
  for (Row& row : rows) {
    for (float& logit : row.logits) logit = normal(random);
  }
  return rows;
}

// Before anybody has taken them, and in any order; those of a draw before are there as long as they are not taken.
TEST_P(BackendSampleTest, TheNextBatchKnowsWhatWasDrawn) {
  constexpr int kColumns = 24;
  const OwnedWeight table(60, kColumns, DType::kBF16, 3);
  for (const WeightQuantization form : {WeightQuantization::kAsStored, WeightQuantization::kInt8}) {
    HostWeight host = table.view;
    host.form = form;
    const auto weight = backend_->load({&host, 1});
    const SampleTicket before = sample(some_rows(3, 1), 8);
    const SampleTicket last = sample(some_rows(5, 2), 9);
    EXPECT_EQ(backend_->last_sample(), last);
    OwnedMatrix got(6, kColumns);
    backend_->run(
        EmbedOp{weight.get(),
                std::vector<TokenId>{sampled_token(4), 17, sampled_token(0), sampled_token(1), 3, sampled_token(4)},
                got.view});
    std::vector<TokenId> tokens(5);
    backend_->take_sampled(last, tokens);
    OwnedMatrix expected(6, kColumns);
    backend_->run(EmbedOp{weight.get(), std::vector<TokenId>{tokens[4], 17, tokens[0], tokens[1], 3, tokens[4]},
                          expected.view});
    EXPECT_EQ(got.values, expected.values);
    std::vector<TokenId> first(3);
    backend_->take_sampled(before, first);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(first[static_cast<size_t>(i)], on_the_host(some_rows(3, 1)[static_cast<size_t>(i)], 8 + i));
    }
  }
}

}  // namespace
}  // namespace kvasir::testing
