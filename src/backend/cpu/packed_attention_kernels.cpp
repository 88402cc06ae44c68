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
#include "backend/cpu/packed_tiles-inl.h"
#include "base/check.h"
#include "layout/codec.h"

KVASIR_BEFORE_DOTS();
namespace kvasir::cpu::HWY_NAMESPACE {

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
        if (row == 0) __builtin_prefetch(tiles.values[tile + n] + g * kCodeTile, 0, 2);
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

template <class Codec>
struct Mixer {
  static constexpr int kRows = kParts == 1 ? (Codec::kBits == 2 ? 2 : 4) : kParts == 2 && Codec::kBits == 8 ? 2 : 1;
  static constexpr int kTiles = kParts == 1 && Codec::kBits == 8 ? 2 : 1;  // of 16 columns, at once

  const ValueQuads& quads;
  const WeightCodes* weights;  // by row
  int columns;                 // of a value row
  const KeysAhead& ahead;
  PartialRows out;

  // Each quad asks for kAsks lines of the tile that it lies in.
  template <int R, int C, int kAsks>
  HWY_INLINE void chunk(int row, int column) const {
    constexpr int kPer = Codec::kPerByte;
    constexpr int kQuadsOfTile = kLanes / kQuad;
    const int asked = column / (C * kLanes) * kAsks * kQuadsOfTile * KeysAhead::kLine;  // in the passes before
    Ints sums[R][2][C * kPer];
    for (int r = 0; r < R; ++r) {
      for (auto& part : sums[r]) {
        for (Ints& ints : part) ints = all(0);
      }
    }
    for (int q = 0; q < quads.count; ++q) {
      for (int i = 0; i < kAsks; ++i) {
        const int line = asked + (q % kQuadsOfTile * kAsks + i) * KeysAhead::kLine;
        __builtin_prefetch(ahead.at[q / kQuadsOfTile] + line, 0, 2);
      }
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

  template <int R, int kAsks>
  void rows(int row) const {
    int column = 0;
    for (; column + kTiles * kLanes <= quads.columns; column += kTiles * kLanes) chunk<R, kTiles, kAsks>(row, column);
    for (; column < quads.columns; column += kLanes) chunk<R, 1, 0>(row, column);
  }

  // How many lines a quad asks for in one pass over the columns, so that the first rows ask for all.
  int asks() const { return ahead.lines * kTiles * kLanes / (quads.columns * (kLanes / kQuad)); }

  void run(int count) const {
    int row = 0;
    if (count >= kRows && asks() > 0) {
      asks() == 1 ? rows<kRows, 1>(0) : rows<kRows, 2>(0);
      row = kRows;
    }
    for (; row + kRows <= count; row += kRows) rows<kRows, 0>(row);
    for (; row < count; ++row) rows<1, 0>(row);
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
  const KeysAhead ahead = keys_ahead(task, range);
  Mixer<Codec>{quads, weights, columns, ahead, out}.run(task.rows);
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

AttentionKernels packed_table() {
  return {&score_packed_split, nullptr, nullptr, &mix_packed_split, nullptr, nullptr};
}

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
