#pragma once

#include <cstdint>

#include "layout/host_device.h"
#include "layout/kv_format.h"

namespace kvasir {

// Heads longer than this have no integer format: sums of products of codes would not fit in 32 bits.
inline constexpr int kMaxPackedDim = 1024;

// A query that meets keys of integers is itself rounded to integers up to this, times a scale.
inline constexpr int kQueryLevels = 127;

// Four tokens, or four dimensions, whose codes lie side by side: what a dot product of bytes takes at once.
inline constexpr int kCodeQuad = 4;

// Where a code lies: a byte, counted from the first of its head's codes, and the bits to shift it right by.
struct CodePlace {
  std::int64_t byte = 0;
  int shift = 0;
};

// Integers of a few bits: value = scale (kFactor code - kZero), the row's scale as bf16. Below eight bits the levels
// lie symmetrically around zero and none is wasted (int2: -3, -1, 1 and 3 times the scale); int8 has 255 levels, one
// of them zero.
//
// K: a byte holds dimensions that lie 4 apart, so that 4 bytes of each of 16 neighbouring tokens unpack by shifts and
// masks into the 16 lanes of dot products of bytes: [k_dim / (4 kPerByte)][block_tokens][4].
// V: a byte holds dimensions that lie v_columns apart; where 4 divides the block size, 4 tokens lie side by side:
// [block_tokens / 4][v_columns][4], otherwise [block_tokens][v_columns].
template <int kBitsOfACode>
struct IntCodec {
  static constexpr int kBits = kBitsOfACode;
  static constexpr int kPerByte = 8 / kBits;
  static constexpr int kMask = (1 << kBits) - 1;
  static constexpr int kFactor = kBits == 8 ? 1 : 2;
  static constexpr int kZero = kBits == 8 ? 128 : kMask;
  static constexpr int kLevels = kBits == 8 ? 127 : kMask;  // the largest value, in units of the scale
  static constexpr bool kRotated = true;  // what is large in one dimension is spread over all before it is encoded

  KVASIR_HD static int k_groups(int k_dim) { return (k_dim + kCodeQuad * kPerByte - 1) / (kCodeQuad * kPerByte); }
  KVASIR_HD static int v_columns(int v_dim) { return (v_dim + kPerByte - 1) / kPerByte; }
  KVASIR_HD static int v_quad(int block_tokens) { return block_tokens % kCodeQuad == 0 ? kCodeQuad : 1; }

  KVASIR_HD static CodePlace k_place(int block_tokens, int token_in_block, int dim) {
    const int group = dim / (kCodeQuad * kPerByte);
    const int inside = dim % (kCodeQuad * kPerByte);
    const std::int64_t quad = static_cast<std::int64_t>(group) * block_tokens + token_in_block;
    return {quad * kCodeQuad + inside % kCodeQuad, inside / kCodeQuad * kBits};
  }
  KVASIR_HD static CodePlace v_place(int block_tokens, int v_dim, int token_in_block, int dim) {
    const int columns = v_columns(v_dim);
    const int quad = v_quad(block_tokens);
    const std::int64_t column = static_cast<std::int64_t>(token_in_block / quad) * columns + dim % columns;
    return {column * quad + token_in_block % quad, dim / columns * kBits};
  }
};

struct CodecInt8 : IntCodec<8> {
  static constexpr KvFormat kFormat = KvFormat::kInt8;
  static constexpr const char* kName = "int8";
};
struct CodecInt4 : IntCodec<4> {
  static constexpr KvFormat kFormat = KvFormat::kInt4;
  static constexpr const char* kName = "int4";
};
struct CodecInt2 : IntCodec<2> {
  static constexpr KvFormat kFormat = KvFormat::kInt2;
  static constexpr const char* kName = "int2";
};

}  // namespace kvasir
