// Where the K and V of a token lie inside a block.
//
// A block is one contiguous span of bytes: the K and V of `block_tokens` consecutive tokens, for all layers of its
// group. Inside it, layer after layer; inside a layer, KV head after KV head; inside a head first K, then V:
//
//     layer 0                                              layer 1
//     head 0                    head 1
//     K [k_dim][block_tokens]   V [block_tokens][v_dim]    …
//
// K is stored with the token as the fastest index: a query's dot products with 16 neighbouring keys are then 16
// lanes of one vector, with no sum across lanes. V is stored row by row, so that a weighted sum of rows runs along
// lanes as well. Formats of a few bits pack K and V their own way (codec_int.h), and so do pruned ones (codec_top.h).
// Formats with scales have those of the block's rows behind the codes of their head, first K's and then V's; where K
// and V take a byte a number, behind those of all heads, so that codes begin at multiples of 128 bytes, where GPUs
// read them fastest. Where V is a part of K there is no V. docs/block-format.md draws it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "layout/host_device.h"
#include "layout/kv_format.h"
#include "layout/retention.h"
#include "layout/state_format.h"
#include "layout/state_layout.h"

namespace kvasir {

inline constexpr int kDefaultBlockTokens = 16;
// K, V and the scales of a head begin at such a byte of their block: a few bytes of padding where the block's tokens
// are no multiple of it, and none where they are.
inline constexpr int kPartAlignment = 4;
inline constexpr int kScaleBytes = 2;  // of a row, in formats that have one: a bf16

// What the numbers of a cached row are.
enum class KvSpace : std::uint8_t {
  kWhole,     // the row itself
  kRank,      // its parts in some directions: the first ones of the model's KvBasis
  kChannels,  // some of its own numbers: the first ones in the order of the model's KvBasis
};

// What one layer caches of one token. MHA, GQA and MQA differ only in `heads`.
struct KvShape {
  int heads = 0;  // KV heads
  int k_dim = 0;  // numbers of K per head
  int v_dim = 0;  // numbers of V per head
  KvSpace k_space = KvSpace::kWhole;
  KvSpace v_space = KvSpace::kWhole;
  // The number of K from which on V's are K's own, as of latents (MLA): K is all that is kept. -1: V has its own.
  int v_in_k = -1;

  KVASIR_HD bool whole() const { return k_space == KvSpace::kWhole && v_space == KvSpace::kWhole; }
  KVASIR_HD bool has_v() const { return v_in_k < 0; }

  friend bool operator==(const KvShape&, const KvShape&) = default;
};

// Layers that are cached alike. Derived once from the model's config and the request's KV policy; plain data.
struct KvGroup {
  std::vector<int> layers;  // of the model, ascending
  KvShape shape;
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;
  Retention retention;
  // What a query sees under this it reads from another group of the same layers, in a finer format, and the rest from
  // this one. window 0: there is no such group.
  Retention recent_override{};
  // Where a query stands at most when it looks at the sinks: at its place inside the cache, once a window has dropped
  // what lies between. 0: at its own position.
  std::int64_t sink_query_position = 0;
  int first_head = 0;  // of the model's KV heads: shape.heads from here on. The others are in groups of their own.
  // Of recurrent layers: what they keep of all tokens together. Such a group has no rows, and no shape beside this.
  StateShape state = {};
  // What its states are rounded to. Where that is not float32 there are two groups of the same layers, one after the
  // other: of states that sequences go on from, in float32, and of those that are kept, in this format.
  StateFormat state_format = StateFormat::kF32;
  enum class StateUse : std::uint8_t { kBoth, kLive, kKept } state_use = StateUse::kBoth;

  bool keeps_state() const { return !state.none(); }
  bool only_kept() const { return state_use == StateUse::kKept; }
};

// The arithmetic of one group's blocks. A value: copy it, pass it to kernels. All sizes in bytes.
struct KvLayout {
  int block_tokens = 0;
  int layers = 0;
  KvShape shape;
  KvFormat k_format = KvFormat::kF16;
  KvFormat v_format = KvFormat::kF16;
  std::int64_t k_head_bytes = 0;   // codes of K of one head, one layer, one block
  std::int64_t v_head_bytes = 0;   // likewise of V
  std::int64_t k_scale_bytes = 0;  // a bf16 a token, or nothing
  std::int64_t v_scale_bytes = 0;
  std::int64_t head_step = 0;   // from K of one head to that of the next
  std::int64_t scale_from = 0;  // of a layer, to the scales of its first head
  std::int64_t scale_step = 0;  // from those to the next head's

  KVASIR_HD std::int64_t code_bytes() const { return k_head_bytes + v_head_bytes; }  // of one head
  KVASIR_HD std::int64_t scale_bytes() const { return k_scale_bytes + v_scale_bytes; }
  KVASIR_HD std::int64_t head_bytes() const { return code_bytes() + scale_bytes(); }
  KVASIR_HD std::int64_t layer_bytes() const { return head_bytes() * shape.heads; }
  KVASIR_HD std::int64_t block_bytes() const { return layer_bytes() * layers; }

  // Offsets from the block's first byte; `layer` counts inside the group.
  KVASIR_HD std::int64_t k_offset(int layer, int head) const { return layer * layer_bytes() + head * head_step; }
  KVASIR_HD std::int64_t v_offset(int layer, int head) const { return k_offset(layer, head) + k_head_bytes; }
  KVASIR_HD std::int64_t k_scale_offset(int layer, int head) const {
    return layer * layer_bytes() + scale_from + head * scale_step;
  }
  KVASIR_HD std::int64_t v_scale_offset(int layer, int head) const {
    return k_scale_offset(layer, head) + k_scale_bytes;
  }

  friend bool operator==(const KvLayout&, const KvLayout&) = default;
};

// Throws Error for heads that a format cannot hold. REQUIRES: a group of rows.
KvLayout make_layout(const KvGroup& group, int block_tokens);

// Of any group: what a block of it takes.
std::int64_t block_bytes_of(const KvGroup& group, int block_tokens);

// The planner's number: what one token of one sequence costs in this group; a state, which is no larger for more of
// them, nothing.
std::int64_t bytes_per_token(const KvGroup& group);

}  // namespace kvasir
