// Evictions carried out: what lies in the blocks afterwards is the rows that were to stay.
#include "engine/step/token_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "backend/make_backend.h"
#include "layout/row_codec.h"

namespace kvasir::testing {
namespace {

// One sequence in one group of two layers and two heads; row p of head h is full of p + h / 2.
TEST(TokenRows, WhatIsLeftInTheBlocksIsWhatWasToStay) {
  const std::unique_ptr<Backend> backend = make_backend({"ref", 1, "auto"});
  const KvGroup group{{0, 1}, {2, 4, 4}, KvFormat::kF32, KvFormat::kF32, {}};
  const std::int64_t block = make_layout(group, 4).block_bytes();
  KvStorage storage(*backend, {20, block}, 4);
  storage.set_group(0, group);
  CacheConfig config;
  config.block_tokens = 4;
  config.pages = {in_order(20), block};
  config.policy.groups = {{{}, block}};
  config.policy.sharing = CachePolicy::Sharing::kPrivate;
  KvCache cache(config);
  EvictionRule rule;
  rule.how = {TokenEviction::Method::kFifo, 10};
  rule.sinks = 2;
  rule.prompt = 30;
  TokenRows rows(*backend, rule, {{&group, 1}, 2, 60});

  const std::vector<TokenId> text(60, 7);
  KvLease lease = cache.open(text, {}).lease;
  const auto write = [&](Position until) {
    const Position from = lease.length();
    const auto count = static_cast<int>(until - from);
    ASSERT_TRUE(cache.reserve(lease, count));
    std::vector<float> values;
    for (Position p = from; p < until; ++p) {
      for (int i = 0; i < 8; ++i) values.push_back(static_cast<float>(p) + (i < 4 ? 0.0F : 0.5F));
    }
    const Matrix matrix{values.data(), count, 8, 8};
    const SequenceView view{lease.table(0).data(), lease.rows(0), 0, count};
    for (const int layer : {0, 1}) backend->run(KvWriteOp{matrix, matrix, storage.view(0, layer), {&view, 1}});
    cache.commit(lease, std::span(text).first(static_cast<size_t>(count)));
    rows.evict(cache, storage, lease);
  };
  for (const Position until : {30, 46}) {
    write(until);
    ASSERT_EQ(lease.rows(0), 10);
    EXPECT_EQ(lease.table(0).size(), 3);
    EXPECT_EQ(rows.evicted(lease), until - 10);
    std::set<float> expected{0, 1};
    for (Position p = until - 8; p < until; ++p) expected.insert(static_cast<float>(p));
    for (const int layer : {0, 1}) {
      for (const int head : {0, 1}) {
        std::set<float> left;
        for (int row = 0; row < 10; ++row) {
          const RowPlace place{lease.table(0).at(row / 4), head, row % 4};
          float k[4];
          float v[4];
          decode_k(storage.view(0, layer), place, k);
          decode_v(storage.view(0, layer), place, v);
          EXPECT_EQ(k[3], v[0]);
          left.insert(k[0] - (head == 0 ? 0.0F : 0.5F));
        }
        EXPECT_EQ(left, expected) << until << " " << layer << " " << head;
      }
    }
  }
  EXPECT_EQ(lease.length(), 46);
}

}  // namespace
}  // namespace kvasir::testing
