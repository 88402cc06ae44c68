// Dequantizes keys and values of any format, block size and head size into the tiles that attention_math.cuh
// multiplies.
//
// Unwritten rows may hold anything, so keys after the sequence's last token, or in a dropped block, are not read and
// become zeros.
#pragma once

#include "backend/cuda/attention/attention_math.cuh"
#include "layout/codec.h"

namespace kvasir::cuda {

// A number before its scale: an integer code, or the number itself.
template <class Codec>
__device__ float k_number(const std::byte* head, const KvView& view, int token_in_block, int dim) {
  if constexpr (kIsPacked<Codec>) {
    const CodePlace place = Codec::k_place(view.layout.block_tokens, token_in_block, dim);
    const int code = static_cast<int>(head[place.byte]) >> place.shift & Codec::kMask;
    return static_cast<float>(code * Codec::kFactor - Codec::kZero);
  } else {
    return Codec::decode(reinterpret_cast<const typename Codec::Stored*>(head)[view.k_index(token_in_block, dim)]);
  }
}
template <class Codec>
__device__ float v_number(const std::byte* head, const KvView& view, int token_in_block, int dim) {
  if constexpr (kIsPacked<Codec>) {
    const CodePlace place = Codec::v_place(view.layout.block_tokens, view.layout.shape.v_dim, token_in_block, dim);
    const int code = static_cast<int>(head[place.byte]) >> place.shift & Codec::kMask;
    return static_cast<float>(code * Codec::kFactor - Codec::kZero);
  } else {
    return Codec::decode(reinterpret_cast<const typename Codec::Stored*>(head)[view.v_index(token_in_block, dim)]);
  }
}

// Pruned formats store K and V alike.
template <class Codec>
__device__ float kept_number(const std::byte* head, int dims, int token_in_block, int dim) {
  const std::byte* mask = head + static_cast<std::int64_t>(token_in_block) * Codec::row_bytes(dims);
  const auto byte = [mask](int i) { return static_cast<unsigned>(mask[i]); };
  if ((byte(dim / 8) >> dim % 8 & 1U) == 0) return 0.0F;
  int before = __popc(byte(dim / 8) & ((1U << dim % 8) - 1U));
  for (int i = 0; i < dim / 8; ++i) before += __popc(byte(i));
  const auto* values = reinterpret_cast<const std::uint16_t*>(mask + Codec::mask_bytes(dims));
  return CodecF16::decode(values[before]);
}

enum class Side : std::uint8_t { kKeys, kValues };

// Values of fp8 become bf16 by moving their bits, which divides them by this; their scales are multiplied by it.
template <class Codec>
inline constexpr float kValueFactor = 1.0F;
template <>
inline constexpr float kValueFactor<CodecE4M3> = 0x1p120F;
template <>
inline constexpr float kValueFactor<CodecE5M2> = 0x1p112F;

// `codes`: the keys, or values, of a head in a block.
template <class Codec, Side kSide>
__device__ float number_in(const std::byte* codes, const KvView& view, int token_in_block, int dim) {
  if constexpr (kIsPruned<Codec>) {
    return kept_number<Codec>(codes, kSide == Side::kKeys ? view.layout.shape.k_dim : view.layout.shape.v_dim,
                              token_in_block, dim);
  } else if constexpr (kSide == Side::kKeys) {
    return k_number<Codec>(codes, view, token_in_block, dim);
  } else {
    return v_number<Codec>(codes, view, token_in_block, dim);
  }
}
template <class Codec, Side kSide>
__device__ float number_at(const KvView& view, BlockId block, int head, int token_in_block, int dim) {
  const std::byte* codes = kSide == Side::kKeys ? view.k_head(block, head) : view.v_head(block, head);
  return number_in<Codec, kSide>(codes, view, token_in_block, dim);
}

template <Side kSide>
__device__ float scale_at(const KvView& view, BlockId block, int head, int token_in_block) {
  const std::byte* scales = kSide == Side::kKeys ? view.k_scales(block, head) : view.v_scales(block, head);
  return CodecBF16::decode(reinterpret_cast<const std::uint16_t*>(scales)[token_in_block]);
}

struct KeyRange {
  const BlockId* blocks;
  Position first;                  // of the tile
  Position end;                    // of the sequence's tokens
  int head;                        // KV head
  const TreePath* path = nullptr;  // where they lie, of a row of a tree
};

// Loads kTileTokens rows of K or V, by one warp, and their scales if the format has them.
template <Side kSide, class Half, int kDim>
__device__ void load_rows(const KvView& view, const KeyRange& keys, std::uint16_t* to, float* scales) {
  const int lane = threadIdx.x % 32;
  const KvLayout& layout = view.layout;
  const int dims = kSide == Side::kKeys ? layout.shape.k_dim : layout.shape.v_dim;
  visit_codec(kSide == Side::kKeys ? layout.k_format : layout.v_format, [&](auto codec) {
    using Codec = decltype(codec);
    constexpr float kFactor = kSide == Side::kKeys ? 1.0F : kValueFactor<Codec>;
    for (int i = lane; i < kTileTokens * kDim; i += 32) {
      // Neighbouring lanes read neighbouring numbers: tokens of K, dimensions of V.
      const int token = kSide == Side::kKeys ? i % kTileTokens : i / kDim;
      const int dim = kSide == Side::kKeys ? i / kTileTokens : i % kDim;
      const Position key = keys.first + token;
      const Position slot = keys.path != nullptr && key < keys.end ? keys.path->slot_of(key) : key;
      const BlockId block = key < keys.end ? keys.blocks[slot / layout.block_tokens] : kNoBlock;
      const int token_in_block = static_cast<int>(slot % layout.block_tokens);
      float value = 0.0F;
      if (block != kNoBlock && dim < dims)
        value = number_at<Codec, kSide>(view, block, keys.head, token_in_block, dim);
      const int inside = token % kBlockOfTile;
      const int at = token / kBlockOfTile * kDim * kBlockOfTile +
                     (kSide == Side::kKeys ? SmemLayout<kDim>::k_vec(dim, inside / 8) / 2 + inside % 8
                                           : SmemLayout<kDim>::v_vec(inside, dim / 8) / 2 + dim % 8);
      to[at] = Half::encode(__fmul_rn(value, 1.0F / kFactor));
      if (kHasScale<Codec> && dim == 0) {
        scales[token] =
            block == kNoBlock ? 0.0F : __fmul_rn(scale_at<kSide>(view, block, keys.head, token_in_block), kFactor);
      }
    }
  });
}

}  // namespace kvasir::cuda
