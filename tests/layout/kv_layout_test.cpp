#include "layout/kv_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "layout/codec.h"
#include "layout/kv_view.h"

namespace kvasir {
namespace {

KvGroup group_of(int layers, KvShape shape, KvFormat k, KvFormat v) {
  KvGroup group;
  for (int i = 0; i < layers; ++i) group.layers.push_back(i);
  group.shape = shape;
  group.k_format = k;
  group.v_format = v;
  return group;
}

std::vector<KvGroup> some_groups() {
  std::vector<KvGroup> groups;
  for (const KvFormat k : kAllKvFormats) {
    for (const KvFormat v : kAllKvFormats) {
      groups.push_back(group_of(1, {1, 1, 1}, k, v));
      groups.push_back(group_of(3, {2, 5, 3}, k, v));
      groups.push_back(group_of(2, {4, 8, 8}, k, v));
    }
  }
  return groups;
}

// Every number of a block, through the view that kernels use: no two share a byte, none is outside, none is
// left over.
TEST(KvLayout, EveryByteOfABlockBelongsToExactlyOneNumber) {
  for (const KvGroup& group : some_groups()) {
    for (const int tokens : {1, 3, 16}) {
      const KvLayout layout = make_layout(group, tokens);
      std::vector<int> owners(static_cast<size_t>(layout.block_bytes()), 0);
      const auto own = [&](std::int64_t first, std::int64_t index, KvFormat format) {
        const auto size = static_cast<std::int64_t>(bytes_per_element(format));
        for (std::int64_t b = 0; b < size; ++b) ++owners.at(static_cast<size_t>(first + index * size + b));
      };
      for (int layer = 0; layer < layout.layers; ++layer) {
        const KvView view{nullptr, layout, {}, layer};
        for (int head = 0; head < group.shape.heads; ++head) {
          for (int slot = 0; slot < tokens; ++slot) {
            for (int d = 0; d < group.shape.k_dim; ++d)
              own(layout.k_offset(layer, head), view.k_index(slot, d), group.k_format);
            for (int d = 0; d < group.shape.v_dim; ++d)
              own(layout.v_offset(layer, head), view.v_index(slot, d), group.v_format);
          }
        }
      }
      EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
    }
  }
}

TEST(KvLayout, BlockBytesAreTheSumOfItsNumbers) {
  for (const KvGroup& group : some_groups()) {
    const KvShape& shape = group.shape;
    const auto k = static_cast<std::int64_t>(bytes_per_element(group.k_format)) * shape.k_dim;
    const auto v = static_cast<std::int64_t>(bytes_per_element(group.v_format)) * shape.v_dim;
    const std::int64_t token = std::ssize(group.layers) * shape.heads * (k + v);
    EXPECT_EQ(bytes_per_token(group), token);
    for (const int tokens : {1, 3, 16}) EXPECT_EQ(make_layout(group, tokens).block_bytes(), tokens * token);
  }
}

// The number everybody knows: 2 · layers · KV heads · head size · bytes.
TEST(KvLayout, ATokenOfAWellKnownModelCostsWhatIsWellKnown) {
  EXPECT_EQ(bytes_per_token(group_of(32, {8, 128, 128}, KvFormat::kF16, KvFormat::kF16)), 131'072);
  EXPECT_EQ(bytes_per_token(group_of(32, {32, 128, 128}, KvFormat::kF16, KvFormat::kF16)), 524'288);
  EXPECT_EQ(bytes_per_token(group_of(80, {8, 128, 128}, KvFormat::kBF16, KvFormat::kBF16)), 327'680);
}

TEST(KvLayout, BlocksForTokensRoundsUp) {
  for (std::int64_t tokens = 0; tokens < 100; ++tokens) {
    std::int64_t blocks = 0;
    while (blocks * 16 < tokens) ++blocks;
    EXPECT_EQ(blocks_for(tokens, 16), blocks);
    EXPECT_EQ(blocks_for(tokens, 1), tokens);
  }
}

TEST(KvView, BlocksLieOneAfterTheOtherBeyondTwoToTheThirtyOne) {
  const KvLayout layout = make_layout(group_of(32, {8, 128, 128}, KvFormat::kF16, KvFormat::kF16), 16);
  const KvView view{nullptr, layout, {}, 3};
  const BlockId far = 2'000'000;
  EXPECT_EQ(view.k_head(far, 2) - view.k_head(0, 2), 2'000'000LL * layout.block_bytes());
  EXPECT_EQ(view.v_head(far, 2) - view.k_head(far, 2), layout.k_head_bytes);
}

TEST(SequenceView, FindsTheBlockOfAPosition) {
  const std::vector<BlockId> blocks{7, kNoBlock, 5};
  const SequenceView view{blocks.data(), 0, 0, 1};
  EXPECT_EQ(view.block_of(0, 4), 7);
  EXPECT_EQ(view.block_of(3, 4), 7);
  EXPECT_EQ(view.block_of(4, 4), kNoBlock);
  EXPECT_EQ(view.block_of(11, 4), 5);
}

TEST(KvLayoutDeathTest, AGroupHasLayersAndHeads) {
  EXPECT_DEATH(make_layout(group_of(0, {1, 1, 1}, KvFormat::kF16, KvFormat::kF16), 16), "layers");
  EXPECT_DEATH(make_layout(group_of(1, {0, 1, 1}, KvFormat::kF16, KvFormat::kF16), 16), "heads");
  EXPECT_DEATH(make_layout(group_of(1, {1, 1, 1}, KvFormat::kF16, KvFormat::kF16), 0), "block_tokens");
}

}  // namespace
}  // namespace kvasir
