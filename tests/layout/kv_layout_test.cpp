#include "layout/kv_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
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
      groups.push_back(group_of(1, {2, 64, 64}, k, v));
    }
  }
  return groups;
}

// Every number of a block, through the view that kernels use: no two share a bit, none is outside, and of formats
// without padding none is left over.
class Owners {
 public:
  explicit Owners(const KvLayout& layout) : bits_(static_cast<size_t>(layout.block_bytes()) * 8, 0) {}

  void own(std::int64_t first_bit, int count) {
    for (int i = 0; i < count; ++i) ++bits_.at(static_cast<size_t>(first_bit + i));
  }
  void own_number(KvFormat format, std::int64_t head, std::int64_t index, const auto& place_of) {
    visit_codec(format, [&](auto codec) {
      using Codec = decltype(codec);
      if constexpr (kIsPruned<Codec>)
        return;  // rows, not numbers, have a place
      else if constexpr (kIsPacked<Codec>) {
        const CodePlace place = place_of(codec);
        own((head + place.byte) * 8 + place.shift, Codec::kBits);
      } else {
        constexpr int kBits = 8 * sizeof(typename Codec::Stored);
        own(head * 8 + index * kBits, kBits);
      }
    });
  }
  void own_row(KvFormat format, std::int64_t head, int slot, int dim) {
    if (!is_pruned(format)) return;
    const std::int64_t bytes = k_code_bytes(format, dim);
    ASSERT_EQ(bytes, v_code_bytes(format, dim));
    own((head + slot * bytes) * 8, static_cast<int>(8 * bytes));
  }
  int most() const { return *std::ranges::max_element(bits_); }
  std::int64_t unowned() const { return std::ranges::count(bits_, 0); }

 private:
  std::vector<int> bits_;
};

TEST(KvLayout, EveryBitOfABlockBelongsToOneNumber) {
  for (const KvGroup& group : some_groups()) {
    for (const int tokens : {1, 3, 16}) {
      const KvLayout layout = make_layout(group, tokens);
      const KvShape& shape = group.shape;
      Owners owners(layout);
      for (int layer = 0; layer < layout.layers; ++layer) {
        const KvView view{nullptr, layout, {}, layer};
        for (int head = 0; head < shape.heads; ++head) {
          for (int slot = 0; slot < tokens; ++slot) {
            for (int d = 0; d < shape.k_dim; ++d) {
              owners.own_number(group.k_format, layout.k_offset(layer, head), view.k_index(slot, d),
                                [&](auto codec) { return codec.k_place(tokens, slot, d); });
            }
            for (int d = 0; d < shape.v_dim; ++d) {
              owners.own_number(group.v_format, layout.v_offset(layer, head), view.v_index(slot, d),
                                [&](auto codec) { return codec.v_place(tokens, shape.v_dim, slot, d); });
            }
            owners.own_row(group.k_format, layout.k_offset(layer, head), slot, shape.k_dim);
            owners.own_row(group.v_format, layout.v_offset(layer, head), slot, shape.v_dim);
            if (has_scale(group.k_format)) owners.own((layout.k_scale_offset(layer, head) + 2 * slot) * 8, 16);
            if (has_scale(group.v_format)) owners.own((layout.v_scale_offset(layer, head) + 2 * slot) * 8, 16);
          }
        }
      }
      EXPECT_EQ(owners.most(), 1);
      // 64 numbers fill the bytes of every format, and four tokens all that is aligned.
      if (tokens % kPartAlignment == 0 &&
          ((!is_packed(group.k_format) && !is_packed(group.v_format)) || shape.k_dim == 64)) {
        EXPECT_EQ(owners.unowned(), 0);
      }
    }
  }
}

TEST(KvLayout, BlockBytesAreTheSumOfItsRows) {
  for (const KvGroup& group : some_groups()) {
    const auto row = [](KvFormat format, std::int64_t codes) { return codes + (has_scale(format) ? 2 : 0); };
    const std::int64_t k = row(group.k_format, k_code_bytes(group.k_format, group.shape.k_dim));
    const std::int64_t v = row(group.v_format, v_code_bytes(group.v_format, group.shape.v_dim));
    const std::int64_t token = std::ssize(group.layers) * group.shape.heads * (k + v);
    EXPECT_EQ(bytes_per_token(group), token);
    for (const int tokens : {4, 16, 20}) EXPECT_EQ(make_layout(group, tokens).block_bytes(), tokens * token);
  }
}

TEST(KvLayout, EveryPartOfAHeadBeginsWhereFloatsMay) {
  for (const KvGroup& group : some_groups()) {
    for (const int tokens : {1, 2, 3, 5, 16}) {
      const KvLayout layout = make_layout(group, tokens);
      for (int head = 0; head < group.shape.heads; ++head) {
        const int last = layout.layers - 1;
        for (const std::int64_t offset : {layout.k_offset(last, head), layout.v_offset(last, head),
                                          layout.k_scale_offset(last, head), layout.v_scale_offset(last, head)}) {
          EXPECT_EQ(offset % kPartAlignment, 0) << tokens << " " << format_name(group.k_format);
        }
      }
      // Of all that a head holds nothing is padded by as much as a float.
      const std::int64_t rows = bytes_per_token(group) * tokens;
      EXPECT_LT(layout.block_bytes() - rows, 4 * kPartAlignment * layout.layers * group.shape.heads);
    }
  }
}

// A row of 64 numbers: its codes and two bytes of scale.
TEST(KvLayout, RowsTakeTheBytesTheirBitsNeed) {
  const auto row = [](KvFormat format) { return bytes_per_token(group_of(1, {1, 64, 64}, format, format)) / 2; };
  EXPECT_EQ(row(KvFormat::kF32), 256);
  EXPECT_EQ(row(KvFormat::kF16), 128);
  EXPECT_EQ(row(KvFormat::kBF16), 128);
  EXPECT_EQ(row(KvFormat::kInt8), 66);
  EXPECT_EQ(row(KvFormat::kE4M3), 66);
  EXPECT_EQ(row(KvFormat::kE5M2), 66);
  EXPECT_EQ(row(KvFormat::kInt4), 34);
  EXPECT_EQ(row(KvFormat::kInt2), 18);
  EXPECT_EQ(row(KvFormat::kTop50), 8 + 2 * 32);
  EXPECT_EQ(row(KvFormat::kTop25), 8 + 2 * 16);
}

// The number everybody knows: 2 · layers · KV heads · head size · bytes.
TEST(KvLayout, ATokenOfAWellKnownModelCostsWhatIsWellKnown) {
  EXPECT_EQ(bytes_per_token(group_of(32, {8, 128, 128}, KvFormat::kF16, KvFormat::kF16)), 131'072);
  EXPECT_EQ(bytes_per_token(group_of(32, {32, 128, 128}, KvFormat::kF16, KvFormat::kF16)), 524'288);
  EXPECT_EQ(bytes_per_token(group_of(80, {8, 128, 128}, KvFormat::kBF16, KvFormat::kBF16)), 327'680);
}

// Values that are a part of K take nothing: a layer of DeepSeek-V3 caches 576 numbers a token.
TEST(KvLayout, ValuesInKeysTakeNoBytes) {
  EXPECT_EQ(bytes_per_token(group_of(61, {1, 576, 512, {}, {}, 0}, KvFormat::kBF16, KvFormat::kBF16)), 61 * 1152);
  for (const KvFormat format : kAllKvFormats) {
    const KvGroup apart = group_of(2, {2, 64, 48}, format, format);
    KvGroup shared = apart;
    shared.shape.v_in_k = 16;
    const std::int64_t scale = has_scale(format) ? kScaleBytes : 0;
    EXPECT_EQ(bytes_per_token(shared), 4 * (k_code_bytes(format, 64) + scale)) << format_name(format);
    for (const int tokens : {3, 16}) {
      const KvLayout layout = make_layout(shared, tokens);
      // Head after head, and behind K's codes its scales.
      EXPECT_EQ(layout.code_bytes(), layout.k_head_bytes);
      EXPECT_EQ(layout.k_scale_offset(1, 1) + layout.k_scale_bytes, layout.block_bytes()) << format_name(format);
      EXPECT_LT(layout.k_offset(0, 1), make_layout(apart, tokens).k_offset(0, 1));
    }
  }
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

// A tree of six rows behind ten tokens: 0 and 1 follow the text, 2 and 3 follow 0, 4 follows 3, 5 follows 1.
TEST(SequenceView, ARowOfATreeReadsItsPathAsAChain) {
  const std::vector<std::uint64_t> ancestors{0, 0, 0b1, 0b1, 0b1001, 0b10};
  SequenceView view{nullptr, 10, 0, 6};
  EXPECT_EQ(view.position_of(4), 14);
  EXPECT_EQ(view.path_of(4).slot_of(13), 13);
  view.ancestors = ancestors.data();
  const std::vector<Position> positions{10, 10, 11, 11, 12, 11};
  for (int row = 0; row < 6; ++row) EXPECT_EQ(view.position_of(row), positions[static_cast<size_t>(row)]) << row;
  const TreePath path = view.path_of(4);
  for (const auto& [position, slot] :
       std::vector<std::pair<Position, Position>>{{0, 0}, {9, 9}, {10, 10}, {11, 13}, {12, 14}}) {
    EXPECT_EQ(path.slot_of(position), slot);
  }
  EXPECT_EQ(view.path_of(5).slot_of(10), 11);
  EXPECT_EQ(view.path_of(5).slot_of(11), 15);
}

TEST(KvLayoutDeathTest, AGroupHasLayersAndHeads) {
  EXPECT_DEATH(make_layout(group_of(0, {1, 1, 1}, KvFormat::kF16, KvFormat::kF16), 16), "layers");
  EXPECT_DEATH(make_layout(group_of(1, {0, 1, 1}, KvFormat::kF16, KvFormat::kF16), 16), "heads");
  EXPECT_DEATH(make_layout(group_of(1, {1, 8, 8, {}, {}, 1}, KvFormat::kF16, KvFormat::kF16), 16), "v_in_k");
  EXPECT_DEATH(make_layout(group_of(1, {1, 8, 8, {}, {}, 0}, KvFormat::kF16, KvFormat::kInt8), 16), "v_format");
  EXPECT_DEATH(make_layout(group_of(1, {1, 1, 1}, KvFormat::kF16, KvFormat::kF16), 0), "block_tokens");
}

}  // namespace
}  // namespace kvasir
