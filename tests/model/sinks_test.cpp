// Windows with sinks: a query looks at the sinks from its place inside the cache.
//
// The oracle: in a model of one layer a token's K and V depend on the token alone, so that what a query far into a
// stream foretells is what it foretells at the end of a short text: the sinks, and behind them the window.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/make_backend.h"
#include "model/decoder.h"
#include "support/fixtures.h"
#include "support/forward.h"

namespace kvasir::testing {
namespace {

constexpr std::int64_t kWindow = 21;
constexpr std::int64_t kSinks = 3;

class SinksTest : public ::testing::TestWithParam<const char*> {
 protected:
  SinksTest() {
    ModelSpec config = load_config(golden_dir("gqa"));
    config.layers.resize(1);
    model_ = make_decoder(config, Weights(golden_dir("gqa"), tensors_of(config)), *backend_, {64, {}});
    policy_.retention = {kWindow, kSinks};
    const std::vector<KvGroup> groups = kv_groups(config, policy_);
    group_ = groups.at(0);
  }

  static TokenId token_at(Position position) { return static_cast<TokenId>((position * 7 + 5) % 50); }

  // The logits at `last`, after a stream in which what no query sees any more is gone.
  std::vector<float> streamed(Position last) {
    KvStorage storage(*backend_, {8, make_layout(group_, 16).block_bytes()}, 16);
    storage.set_group(0, group_);
    const Position first = last - kWindow + 1;
    // All that nobody sees is one block of zeros; the first rows look there, and in one layer no other row minds.
    std::vector<BlockId> table(static_cast<size_t>(last / 16 + 1), 0);
    table.front() = 1;
    for (Position block = first / 16; block <= last / 16; ++block) {
      table[static_cast<size_t>(block)] = block == 0 ? 1 : static_cast<BlockId>(2 + block - first / 16);
    }
    run(storage, table, 0, kSinks - 1);
    return run(storage, table, std::max<Position>(first, kSinks), last);
  }

  std::vector<float> run(KvStorage& storage, const std::vector<BlockId>& table, Position first, Position last) {
    Batch batch;
    for (Position position = first; position <= last; ++position) {
      batch.tokens.push_back(token_at(position));
      batch.positions.push_back(position);
    }
    batch.logit_rows = {batch.rows() - 1};
    batch.sequences = {{{table.data(), first, 0, batch.rows()}}};
    const Matrix logits = model_->forward(batch, storage);
    return {logits.data, logits.data + logits.cols};
  }

  // The same without a gap: the sinks' tokens, and the window's right behind them.
  std::vector<float> closed_up(Position last) {
    std::vector<TokenId> tokens;
    for (Position position = 0; position < kSinks; ++position) tokens.push_back(token_at(position));
    for (Position position = std::max<Position>(last - kWindow + 1, kSinks); position <= last; ++position) {
      tokens.push_back(token_at(position));
    }
    const std::vector<float> all = forward(*model_, *backend_, tokens);
    return {all.end() - model_->config().vocab, all.end()};
  }

  std::unique_ptr<Backend> backend_ = make_backend({GetParam(), 1, "auto", ActivationPrecision::kF32});
  std::unique_ptr<Model> model_;
  KvPolicy policy_ = uniform_policy(KvFormat::kF32);
  KvGroup group_;
};

TEST_P(SinksTest, AQueryFarIntoAStreamSeesTheSinksRightBehindItsWindow) {
  // Before the window leaves the sinks, as it leaves them, and where float positions have no fractions left.
  for (const Position last : {Position{10}, kWindow - 1, kWindow, kWindow + 1, kWindow + kSinks - 1, kWindow + kSinks,
                              kWindow + 15, Position{100}, Position{5000}, Position{12'345'678}}) {
    const std::vector<float> got = streamed(last);
    const std::vector<float> expected = closed_up(last);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-5) << last << ' ' << i;
  }
}

TEST_P(SinksTest, TheSinksAreSeen) {
  const std::vector<float> with = streamed(5000);
  group_.retention.sinks = 0;
  group_.sink_query_position = 0;
  const std::vector<float> without = streamed(5000);
  group_.retention.sinks = kSinks;  // from where the query is, not from its place inside the cache
  const std::vector<float> far = streamed(5000);
  const auto apart = [&](const std::vector<float>& other) {
    float most = 0;
    for (size_t i = 0; i < with.size(); ++i) most = std::max(most, std::abs(with[i] - other[i]));
    return most;
  };
  EXPECT_GT(apart(without), 1e-3F);
  EXPECT_GT(apart(far), 1e-3F);
}

INSTANTIATE_TEST_SUITE_P(Backends, SinksTest, ::testing::Values("ref", "cpu"));

}  // namespace
}  // namespace kvasir::testing
