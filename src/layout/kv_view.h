// What a kernel sees of the cache: plain pointers and numbers, passed by value. All address arithmetic is here.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/ids.h"
#include "layout/kv_layout.h"

namespace kvasir {

// One layer of one group.
struct KvView {
  std::byte* arena = nullptr;
  KvLayout layout;
  Retention retention;
  int layer = 0;                // inside the group
  std::int32_t per_page = 0;    // blocks, one after the other; 0: pages have no rest, and need not be known
  std::int64_t page_bytes = 0;  // with per_page
  Retention recent_override{};  // see KvGroup
  std::int64_t sink_query_position = 0;
  int first_head = 0;  // of the model's KV heads

  KVASIR_HD bool reads(std::int64_t query, std::int64_t key) const {
    return retention.visible(query, key) && (recent_override.full() || !recent_override.visible(query, key));
  }
  KVASIR_HD std::byte* block_at(BlockId block) const {
    if (per_page == 0) return arena + block * layout.block_bytes();
    return arena + block / per_page * page_bytes + block % per_page * layout.block_bytes();
  }
  KVASIR_HD std::byte* k_head(BlockId block, int head) const {
    return block_at(block) + layout.k_offset(layer, head);
  }
  KVASIR_HD std::byte* v_head(BlockId block, int head) const {
    return block_at(block) + layout.v_offset(layer, head);
  }
  // One bf16 a token, in formats that have them.
  KVASIR_HD std::byte* k_scales(BlockId block, int head) const {
    return block_at(block) + layout.k_scale_offset(layer, head);
  }
  KVASIR_HD std::byte* v_scales(BlockId block, int head) const {
    return block_at(block) + layout.v_scale_offset(layer, head);
  }
  // Formats of single numbers: index of dimension `dim` of the token `token_in_block`. Packed and
  // pruned formats have their own places (codec_int.h, codec_top.h).
  KVASIR_HD std::int64_t k_index(int token_in_block, int dim) const {
    return static_cast<std::int64_t>(dim) * layout.block_tokens + token_in_block;
  }
  KVASIR_HD std::int64_t v_index(int token_in_block, int dim) const {
    return static_cast<std::int64_t>(token_in_block) * layout.shape.v_dim + dim;
  }
  friend bool operator==(const KvView&, const KvView&) = default;
};

inline constexpr int kMostTreeRows = 64;

// Of 64 bits. <bit> has no code for a GPU.
KVASIR_HD inline int count_of_ones(std::uint64_t bits) {
#if defined(__CUDA_ARCH__)
  return __popcll(bits);
#else
  return std::popcount(bits);
#endif
}
KVASIR_HD inline int lowest_one(std::uint64_t bits) {  // REQUIRES: there is one
#if defined(__CUDA_ARCH__)
  return __ffsll(static_cast<long long>(bits)) - 1;
#else
  return std::countr_zero(bits);
#endif
}

// Where a row of a draft tree reads what it sees: the text before the tree lies at its positions, and behind it the
// row's ancestors and the row itself, one after the other, lie at the tree's rows `rows`. Of a chain nothing is
// apart.
struct TreePath {
  Position start = std::numeric_limits<Position>::max();  // of the tree
  std::array<std::uint8_t, kMostTreeRows> rows{};

  KVASIR_HD Position slot_of(Position position) const {
    return position < start ? position : start + rows[static_cast<size_t>(position - start)];
  }
};

// One sequence's part of a ragged batch, as attention and kv_write see it. A prefill chunk, a decode and a draft
// check are `rows` of n, 1 and k+1.
//
// The rows of a draft tree are written one after the other from `start` on, parents before their children. A row is
// attended to as if its path were a chain: it has the position behind its ancestors', and sees them and what was
// cached before.
struct SequenceView {
  const BlockId* blocks = nullptr;  // by index; kNoBlock where the retention dropped it
  Position start = 0;               // position of the first row; all before it are cached
  int first_row = 0;                // in the batch
  int rows = 0;
  Position keys = 0;  // readable, for rules that show all of them, wherever a row stands (ScoreRule::Mask::kAll)
  // [rows], of a draft tree of at most kMostTreeRows: bit j of row i's is set where j < i is an ancestor. Null: a
  // chain.
  const std::uint64_t* ancestors = nullptr;
  std::int32_t block_count = 0;  // 1 where the block is a state; 0: as many as its rows' positions, or its keys, need

  KVASIR_HD BlockId block_of(Position position, int block_tokens) const { return blocks[position / block_tokens]; }

  KVASIR_HD Position position_of(int row) const {
    return start + (ancestors == nullptr ? row : count_of_ones(ancestors_of(row)));
  }
  KVASIR_HD TreePath path_of(int row) const {
    TreePath path;
    if (ancestors == nullptr) return path;
    path.start = start;
    size_t count = 0;
    for (std::uint64_t left = ancestors_of(row); left != 0; left &= left - 1) {
      path.rows[count++] = static_cast<std::uint8_t>(lowest_one(left));
    }
    path.rows[count] = static_cast<std::uint8_t>(row);
    return path;
  }

 private:
  KVASIR_HD std::uint64_t ancestors_of(int row) const { return ancestors[row] & ((std::uint64_t{1} << row) - 1); }
};

}  // namespace kvasir
