// What a kernel sees of the cache: plain pointers and numbers, passed by value. All address arithmetic is here.
#pragma once

#include <cstddef>
#include <cstdint>

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
  Retention finer{};            // see KvGroup
  std::int64_t sink_position = 0;
  int first_head = 0;  // of the model's KV heads

  KVASIR_HD bool reads(std::int64_t query, std::int64_t key) const {
    return retention.visible(query, key) && (finer.full() || !finer.visible(query, key));
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
  // Formats of single numbers: index of dimension `dim` of the token in `slot` of its block. Packed and
  // pruned formats have their own places (codec_int.h, codec_top.h).
  KVASIR_HD std::int64_t k_index(int slot, int dim) const {
    return static_cast<std::int64_t>(dim) * layout.block_tokens + slot;
  }
  KVASIR_HD std::int64_t v_index(int slot, int dim) const {
    return static_cast<std::int64_t>(slot) * layout.shape.v_dim + dim;
  }
};

// One sequence's part of a ragged batch, as attention and kv_write see it. A prefill chunk, a decode and a draft
// check are `rows` of n, 1 and k+1.
struct SequenceView {
  const BlockId* blocks = nullptr;  // slot -> block; kNoBlock where the retention dropped it
  Position start = 0;               // position of the first row; all before it are cached
  int first_row = 0;                // in the batch
  int rows = 0;

  KVASIR_HD BlockId block_of(Position position, int block_tokens) const { return blocks[position / block_tokens]; }
};

}  // namespace kvasir
