// Attention over keys and values of a few bits (layout/codec_int.h): dot products of bytes, scales after them.
//
// Scores: lane = key; a query in bytes meets 4 dimensions of 16 keys at a time. Values: lane =
// dimension; a row's weights, times the scales of their values, become integers of 14 bits relative to the largest of
// the split, and meet 4 tokens of 16 dimensions at a time. All these sums are of integers, exact in any order: no
// instruction set and no neighbour changes a bit, and what a row does not see has the weight 0 exactly.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/packed_attention_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/attention_split.h"
#include "backend/cpu/codes-inl.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"
#include "base/check.h"
#include "layout/codec.h"

// Highway's AVX3_DL implies the byte dot products, but does not ask the compiler for them.
#if HWY_TARGET == HWY_AVX3_DL
HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
HWY_BEFORE_NAMESPACE();
#endif
namespace kvasir::cpu::HWY_NAMESPACE {

inline constexpr int kCodeTile = kLanes * kQuad;  // bytes of 16 keys by 4, or of 16 dimensions by 4 tokens

HWY_INLINE std::int32_t quad_at(const std::int8_t* from) {
  std::int32_t quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}

template <class Codec>
HWY_INLINE void unpack_all(const Codes& raw, Codes (&out)[Codec::kPerByte]) {
  if constexpr (Codec::kBits == 8) {
    out[0] = raw;
  } else if constexpr (Codec::kBits == 4) {
    out[0] = unpack<4, 0>(raw);
    out[1] = unpack<4, 1>(raw);
  } else {
    out[0] = unpack<2, 0>(raw);
    out[1] = unpack<2, 1>(raw);
    out[2] = unpack<2, 2>(raw);
    out[3] = unpack<2, 3>(raw);
  }
}

template <class Codec>
HWY_INLINE Ints product(const Ints& sums, const Codes& codes, std::int32_t quad) {
  return Codec::kBits == 8 ? dot_signed(sums, codes, quad) : dot(sums, codes, quad);
}

// From Σ code x to Σ (kFactor code - kZero) x, where `sum` is Σ x.
template <class Codec>
HWY_INLINE Lanes value_sums(Ints sums, std::int32_t sum) {
  if constexpr (Codec::kFactor == 2) sums = add(sums, sums);
  if constexpr (Codec::kBits != 8 || kHasDots) sums = less(sums, Codec::kZero * sum);
  return to_floats(sums);
}

// --- scores

// The tiles of 16 keys of a split, [groups][16 keys][4], groups `stride` bytes apart. Blocks lie anywhere, so the
// machine cannot guess where the next one is: while a tile is worked on, what comes later is asked for.
struct PackedTiles {
  const std::byte* at[kSplitTokens / kLanes];
  const std::byte* later_keys[kSplitTokens / kLanes];  // some tiles ahead, perhaps in the next split
  const std::byte* values[kSplitTokens / kLanes];      // of the same tokens
  int index[kSplitTokens / kLanes];
  int count = 0;
  std::int64_t stride = 0;
};

inline constexpr int kTilesAhead = 6;

// Copies 16 keys into a tile of their own, for block sizes that 16 does not divide.
void gather_keys(const AttendTask& task, Position first, Position end, int groups, std::byte* to) {
  const int block_tokens = task.view.layout.block_tokens;
  std::memset(to, 0, static_cast<size_t>(groups) * kCodeTile);
  for (int i = 0; i < kLanes && first + i < end; ++i) {
    const BlockId block = task.sequence.block_of(first + i, block_tokens);
    if (block == kNoBlock) continue;
    const std::byte* head = task.view.k_head(block, task.kv_head);
    const auto slot = static_cast<int>((first + i) % block_tokens);
    for (int g = 0; g < groups; ++g) {
      std::memcpy(to + (g * kLanes + i) * kQuad, head + (static_cast<std::int64_t>(g) * block_tokens + slot) * kQuad,
                  kQuad);
    }
  }
}

PackedTiles packed_tiles(const AttendTask& task, const SplitRange& range, int groups, std::byte* room) {
  const int block_tokens = task.view.layout.block_tokens;
  const bool direct = block_tokens % kLanes == 0;
  const std::int64_t value_bytes = task.view.layout.v_head_bytes / block_tokens;
  PackedTiles tiles;
  tiles.stride = static_cast<std::int64_t>(direct ? block_tokens : kLanes) * kQuad;
  for (Position first = range.begin; first < range.end; first += kLanes) {
    const auto index = static_cast<int>((first - range.begin) / kLanes);
    if (direct) {
      const BlockId block = task.sequence.block_of(first, block_tokens);
      if (block == kNoBlock) continue;
      tiles.at[tiles.count] = task.view.k_head(block, task.kv_head) + first % block_tokens * kQuad;
      tiles.values[tiles.count] = task.view.v_head(block, task.kv_head) + first % block_tokens * value_bytes;
      const Position later = first + kTilesAhead * kLanes;
      const BlockId ahead =
          later <= task.positions[task.rows - 1] ? task.sequence.block_of(later, block_tokens) : kNoBlock;
      tiles.later_keys[tiles.count] = ahead == kNoBlock
                                          ? tiles.at[tiles.count]
                                          : task.view.k_head(ahead, task.kv_head) + later % block_tokens * kQuad;
    } else {
      std::byte* to = room + static_cast<std::ptrdiff_t>(index) * groups * kCodeTile;
      gather_keys(task, first, range.end, groups, to);
      tiles.at[tiles.count] = tiles.later_keys[tiles.count] = tiles.values[tiles.count] = to;
    }
    tiles.index[tiles.count++] = index;
  }
  return tiles;
}

template <class Codec>
struct Scorer {
  static constexpr int kRows = kParts == 1 ? 4 : 2;   // that share a load of keys
  static constexpr int kTiles = kParts == 1 ? 2 : 1;  // at once

  const AttendTask& task;
  const PackedTiles& tiles;
  int groups;
  const float* scales;  // of the split's keys
  float* scores;

  template <int R, int N>
  HWY_INLINE void chunk(int row, int tile) const {
    const QueryCodes& q = task.codes;
    const std::int8_t* first = q.at + static_cast<std::ptrdiff_t>(row) * q.stride;
    Ints sums[R][N];
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n) sums[r][n] = all(0);
    }
    for (int g = 0; g < groups; ++g) {
      for (int n = 0; n < N; ++n) {
        Codes codes[Codec::kPerByte];
        unpack_all<Codec>(load_codes(tiles.at[tile + n] + g * tiles.stride), codes);
        if (row == 0) {
          __builtin_prefetch(tiles.later_keys[tile + n] + g * tiles.stride, 0, 3);
          __builtin_prefetch(tiles.values[tile + n] + g * kCodeTile, 0, 2);
        }
        for (int i = 0; i < Codec::kPerByte; ++i) {
          const std::int8_t* quads = first + (g * Codec::kPerByte + i) * kQuad;
          for (int r = 0; r < R; ++r) {
            sums[r][n] = product<Codec>(sums[r][n], codes[i], quad_at(quads + r * q.stride));
          }
        }
      }
    }
    for (int n = 0; n < N; ++n) {
      const int at = tiles.index[tile + n] * kLanes;
      const Lanes key_scales = load(scales + at);
      for (int r = 0; r < R; ++r) {
        const Lanes dots = value_sums<Codec>(sums[r][n], q.sum[row + r]);
        store(mul(dots, mul(key_scales, broadcast(q.scale[row + r]))), scores + (row + r) * kSplitTokens + at);
      }
    }
  }

  template <int R>
  void rows(int row) const {
    int tile = 0;
    for (; tile + kTiles <= tiles.count; tile += kTiles) chunk<R, kTiles>(row, tile);
    for (; tile < tiles.count; ++tile) chunk<R, 1>(row, tile);
  }

  void run() const {
    int row = 0;
    for (; row + kRows <= task.rows; row += kRows) rows<kRows>(row);
    for (; row + 2 <= task.rows; row += 2) rows<2>(row);
    for (; row < task.rows; ++row) rows<1>(row);
  }
};

template <class Codec>
void score_packed(const AttendTask& task, const SplitRange& range, const AttendScratch& scratch) {
  HWY_ALIGN float scales[kSplitTokens];
  read_scales(task, range, Side::kKeys, scales);
  const int groups = Codec::k_groups(task.view.layout.shape.k_dim);
  const PackedTiles tiles = packed_tiles(task, range, groups, scratch.keys);
  Scorer<Codec>{task, tiles, groups, scales, scratch.scores}.run();
}

// --- weights

inline constexpr float kWeightLevels = 127 * 128 + 63;
inline constexpr float kTiniestWeight = 1e-30F;
inline constexpr float kRoundingShift = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, ties to even

// A row's weights in two bytes each, w = 128 high + low, what a unit is worth, and their sum.
struct WeightCodes {
  const std::int8_t* low;
  const std::int8_t* high;
  float scale;
  std::int32_t sum;
};

// weights * scales in place, 0 where the weight is, whatever the scale; returns the largest.
HWY_INLINE float times_scales(float* weights, const float* scales, int tokens) {
  FloatVec tops[kParts];
  for (FloatVec& top : tops) top = hn::Zero(FloatTag());
  for (int t = 0; t < tokens; t += kLanes) {
    for (int i = 0; i < kParts; ++i) {
      const FloatVec weight = hn::LoadU(FloatTag(), weights + t + i * kPart);
      const FloatVec scaled = hn::Mul(weight, hn::LoadU(FloatTag(), scales + t + i * kPart));
      const FloatVec kept = hn::IfThenElseZero(hn::Gt(weight, hn::Zero(FloatTag())), scaled);
      hn::StoreU(kept, FloatTag(), weights + t + i * kPart);
      tops[i] = hn::Max(tops[i], kept);
    }
  }
  Lanes all_tops;
  for (int i = 0; i < kParts; ++i) all_tops.part[i] = tops[i];
  return max_lanes(all_tops);
}

// `tokens` is a multiple of 16 that holds all the row sees, at most `room`; behind it come zeros.
HWY_INLINE WeightCodes weight_codes(float* weights, const float* scales, int tokens, int room, std::int8_t* to) {
  std::int8_t* low = to;
  std::int8_t* high = to + kSplitTokens;
  const float top = times_scales(weights, scales, tokens);
  if (!(top >= kTiniestWeight)) tokens = 0;
  const float inverse = kWeightLevels / top;
  std::int32_t sum = 0;
  for (int t = 0; t < tokens; ++t) {
    const auto whole = static_cast<std::int32_t>((weights[t] * inverse + kRoundingShift) - kRoundingShift);
    const std::int32_t upper = (whole + 64) >> 7;
    sum += whole;
    high[t] = static_cast<std::int8_t>(upper);
    low[t] = static_cast<std::int8_t>(whole - upper * 128);
  }
  std::memset(low + tokens, 0, static_cast<size_t>(room - tokens));
  std::memset(high + tokens, 0, static_cast<size_t>(room - tokens));
  return {low, high, tokens == 0 ? 0.0F : top / kWeightLevels, sum};
}

// --- values

// Four tokens of a split side by side, [columns][4], for each four that lie in a block.
struct ValueQuads {
  const std::byte* at[kSplitTokens / kQuad];
  int token[kSplitTokens / kQuad];
  int count = 0;
  int columns = 0;  // 16 divides it
};

// Copies four tokens, for block sizes that 4, or columns that 16, does not divide.
void gather_quad(const AttendTask& task, Position first, Position end, int columns, std::byte* to) {
  const int block_tokens = task.view.layout.block_tokens;
  const bool quads = block_tokens % kQuad == 0;
  for (int i = 0; i < kQuad && first + i < end; ++i) {
    const BlockId block = task.sequence.block_of(first + i, block_tokens);
    if (block == kNoBlock) continue;
    const auto slot = static_cast<int>((first + i) % block_tokens);
    const std::byte* from = task.view.v_head(block, task.kv_head) + static_cast<std::int64_t>(slot) * columns;
    if (quads) {
      std::memcpy(to, from, static_cast<size_t>(columns) * kQuad);
      return;
    }
    for (int c = 0; c < columns; ++c) to[c * kQuad + i] = from[c];
  }
}

ValueQuads value_quads(const AttendTask& task, const SplitRange& range, int columns, std::byte* room) {
  const int block_tokens = task.view.layout.block_tokens;
  ValueQuads quads;
  quads.columns = (columns + kLanes - 1) / kLanes * kLanes;
  if (block_tokens % kQuad == 0 && columns % kLanes == 0) {
    for (Position first = range.begin; first < range.end;) {
      const auto slot = static_cast<int>(first % block_tokens);
      const Position end = std::min<Position>(first + block_tokens - slot, range.end);
      const BlockId block = task.sequence.block_of(first, block_tokens);
      if (block != kNoBlock) {
        const std::byte* at = task.view.v_head(block, task.kv_head) + static_cast<std::int64_t>(slot) * columns;
        for (Position token = first; token < end; token += kQuad, at += kQuad * columns) {
          quads.at[quads.count] = at;
          quads.token[quads.count++] = static_cast<int>(token - range.begin);
        }
      }
      first = end;
    }
    return quads;
  }
  for (Position first = range.begin; first < range.end; first += kQuad) {
    std::byte* to = room + static_cast<std::ptrdiff_t>(quads.count) * quads.columns * kQuad;
    std::memset(to, 0, static_cast<size_t>(quads.columns) * kQuad);
    gather_quad(task, first, range.end, columns, to);
    quads.at[quads.count] = to;
    quads.token[quads.count++] = static_cast<int>(first - range.begin);
  }
  return quads;
}

template <class Codec>
struct Mixer {
  static constexpr int kRows = kParts == 1 ? (Codec::kBits == 2 ? 2 : 4) : kParts == 2 && Codec::kBits == 8 ? 2 : 1;
  static constexpr int kTiles = kParts == 1 && Codec::kBits == 8 ? 2 : 1;  // of 16 columns, at once

  const ValueQuads& quads;
  const WeightCodes* weights;  // by row
  int columns;                 // of a value row
  PartialRows out;

  template <int R, int C>
  HWY_INLINE void chunk(int row, int column) const {
    constexpr int kPer = Codec::kPerByte;
    Ints sums[R][2][C * kPer];
    for (int r = 0; r < R; ++r) {
      for (auto& part : sums[r]) {
        for (Ints& ints : part) ints = all(0);
      }
    }
    for (int q = 0; q < quads.count; ++q) {
      Codes codes[C][kPer];
      for (int c = 0; c < C; ++c) {
        unpack_all<Codec>(load_codes(quads.at[q] + (column + c * kLanes) * kQuad), codes[c]);
      }
      for (int r = 0; r < R; ++r) {
        const std::int32_t low = quad_at(weights[row + r].low + quads.token[q]);
        const std::int32_t high = quad_at(weights[row + r].high + quads.token[q]);
        for (int c = 0; c < C; ++c) {
          for (int i = 0; i < kPer; ++i) {
            sums[r][0][c * kPer + i] = product<Codec>(sums[r][0][c * kPer + i], codes[c][i], low);
            sums[r][1][c * kPer + i] = product<Codec>(sums[r][1][c * kPer + i], codes[c][i], high);
          }
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      const WeightCodes& w = weights[row + r];
      for (int c = 0; c < C; ++c) {
        for (int i = 0; i < kPer; ++i) {
          const Ints whole = join(sums[r][1][c * kPer + i], sums[r][0][c * kPer + i]);
          const int from = column + c * kLanes;
          const int dim = i * columns + from;
          const int count = std::min(columns - from, out.stride - dim);
          if (count <= 0) continue;
          store_some(mul(value_sums<Codec>(whole, w.sum), broadcast(w.scale)), out.o + (row + r) * out.stride + dim,
                     count);
        }
      }
    }
  }

  template <int R>
  void rows(int row) const {
    int column = 0;
    for (; column + kTiles * kLanes <= quads.columns; column += kTiles * kLanes) chunk<R, kTiles>(row, column);
    for (; column < quads.columns; column += kLanes) chunk<R, 1>(row, column);
  }

  void run(int count) const {
    int row = 0;
    for (; row + kRows <= count; row += kRows) rows<kRows>(row);
    for (; row < count; ++row) rows<1>(row);
  }
};

template <class Codec>
void mix_packed(const AttendTask& task, const SplitRange& range, const AttendScratch& scratch, PartialRows out) {
  HWY_ALIGN float scales[kSplitTokens];
  read_scales(task, range, Side::kValues, scales);
  const int room = (range.tokens() + kQuad - 1) / kQuad * kQuad;
  WeightCodes weights[kMaxQueryRows];
  for (int row = 0; row < task.rows; ++row) {
    const int seen = out.state[row].empty() ? 0 : sight_of(task, row, range).tiles() * kLanes;
    weights[row] = weight_codes(scratch.scores + row * kSplitTokens, scales, seen, std::max(room, seen),
                                scratch.weights + static_cast<std::ptrdiff_t>(row) * 2 * kSplitTokens);
  }
  const int columns = Codec::v_columns(task.view.layout.shape.v_dim);
  const ValueQuads quads = value_quads(task, range, columns, reinterpret_cast<std::byte*>(scratch.values));
  std::memset(out.o, 0, sizeof(float) * static_cast<size_t>(task.rows * out.stride));
  Mixer<Codec>{quads, weights, columns, out}.run(task.rows);
}

// --- the steps

void score_packed_split(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows) {
  const SplitRange range = range_of(task, split);
  switch (task.view.layout.k_format) {
    case KvFormat::kInt8:
      return score_packed<CodecInt8>(task, range, scratch);
    case KvFormat::kInt4:
      return score_packed<CodecInt4>(task, range, scratch);
    case KvFormat::kInt2:
      return score_packed<CodecInt2>(task, range, scratch);
    default:
      CHECK(false);
  }
}

void mix_packed_split(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows out) {
  const SplitRange range = range_of(task, split);
  switch (task.view.layout.v_format) {
    case KvFormat::kInt8:
      return mix_packed<CodecInt8>(task, range, scratch, out);
    case KvFormat::kInt4:
      return mix_packed<CodecInt4>(task, range, scratch, out);
    case KvFormat::kInt2:
      return mix_packed<CodecInt2>(task, range, scratch, out);
    default:
      CHECK(false);
  }
}

AttentionKernels packed_table() { return {&score_packed_split, nullptr, &mix_packed_split, nullptr, nullptr}; }

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/targets.h"

namespace kvasir::cpu {

AttentionKernels packed_attention_kernels(Isa isa) {
  if (isa == Isa::kAvx512Dot && has_int8_dots()) return N_AVX3_DL::packed_table();
  KVASIR_CHOOSE(isa, packed_table);
}

}  // namespace kvasir::cpu
#endif
