// Values that are a part of their keys, as of latents (MLA). Keys lie number by number, so their tiles are turned
// into rows of floats; these are mixed as any others. Included once per target by foreach_target.

#if defined(KVASIR_SHARED_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_SHARED_VALUES_INL_H_
#undef KVASIR_SHARED_VALUES_INL_H_
#else
#define KVASIR_SHARED_VALUES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/attention_split.h"
#include "backend/cpu/attention_values-inl.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"
#include "layout/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Four vectors of a number each, for as many keys as a vector has lanes, become four in which each 128 bits are the
// four numbers of one key: of key 4 b + i in block b of vector i.
HWY_INLINE void turn_four(const FloatVec (&by_number)[4], FloatVec (&by_key)[4]) {
  const FloatTag f;
  const hn::Repartition<double, FloatTag> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(f, by_number[0], by_number[1]));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(f, by_number[2], by_number[3]));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(f, by_number[0], by_number[1]));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(f, by_number[2], by_number[3]));
  by_key[0] = hn::BitCast(f, hn::InterleaveLower(pairs, low01, low23));
  by_key[1] = hn::BitCast(f, hn::InterleaveUpper(pairs, low01, low23));
  by_key[2] = hn::BitCast(f, hn::InterleaveLower(pairs, high01, high23));
  by_key[3] = hn::BitCast(f, hn::InterleaveUpper(pairs, high01, high23));
}
#endif

// 16 numbers of 16 keys, a vector a number, become 16 rows, `stride` floats apart.
HWY_INLINE void turn_tile(const Lanes (&numbers)[kLanes], float* to, int stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int key = 0; key < kLanes; ++key) {
    for (int d = 0; d < kLanes; ++d) to[key * stride + d] = numbers[d].part[key].raw;
  }
#else
  const FloatTag f;
  for (int part = 0; part < kParts; ++part, to += kPart * stride) {
    FloatVec four[4][4];  // [numbers, four at a time][keys, as turn_four leaves them]
    for (int g = 0; g < 4; ++g) {
      const FloatVec in[4] = {numbers[4 * g].part[part], numbers[4 * g + 1].part[part], numbers[4 * g + 2].part[part],
                              numbers[4 * g + 3].part[part]};
      turn_four(in, four[g]);
    }
    for (int i = 0; i < 4; ++i) {
      FloatVec even[2];  // eight numbers of the keys in blocks 0 and 2, and of those in blocks 1 and 3
      FloatVec odd[2];
      for (int half = 0; half < 2; ++half) {
        const FloatVec a = four[2 * half][i];
        const FloatVec b = four[2 * half + 1][i];
        even[half] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a);
        odd[half] = hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a));
      }
      float* row = to + i * stride;
      if constexpr (kPart == kLanes) {
        hn::StoreU(hn::ConcatLowerLower(f, even[1], even[0]), f, row);
        hn::StoreU(hn::ConcatLowerLower(f, odd[1], odd[0]), f, row + 4 * stride);
        hn::StoreU(hn::ConcatUpperUpper(f, even[1], even[0]), f, row + 8 * stride);
        hn::StoreU(hn::ConcatUpperUpper(f, odd[1], odd[0]), f, row + 12 * stride);
      } else {
        for (int half = 0; half < 2; ++half) {
          hn::StoreU(even[half], f, row + half * kPart);
          hn::StoreU(odd[half], f, row + 4 * stride + half * kPart);
        }
      }
    }
  }
#endif
}

// Numbers [column, column + width) of a split's values, [tokens][width]; zeros behind the last. REQUIRES: blocks of
// whole tiles, in the order of the positions.
template <class K>
void turn_keys(const AttendTask& task, const SplitRange& range, int column, int width, float* to) {
  const KvLayout& layout = task.view.layout;
  for (Position at = range.begin; at < range.end; at += kLanes, to += kLanes * width) {
    const BlockId block = task.sequence.block_of(at, layout.block_tokens);
    if (block == kNoBlock) continue;
    const K* keys = reinterpret_cast<const K*>(task.view.k_head(block, task.kv_head)) + at % layout.block_tokens;
    for (int first = 0; first < width; first += kLanes) {
      const int rest = layout.shape.v_dim - column - first;
      Lanes numbers[kLanes];
      for (int d = 0; d < kLanes; ++d) {
        const std::ptrdiff_t number = layout.shape.v_in_k + column + first + d;
        numbers[d] = d < rest ? load(keys + number * layout.block_tokens) : broadcast(0.0F);
      }
      turn_tile(numbers, to + first, width);
    }
  }
}

// A few columns at a time: what is turned stays in the caches until all rows have read it.
template <class K>
void mix_turned(const AttendTask& task, const SplitRange& range, const Sight* sights, const AttendScratch& scratch,
                PartialRows out) {
  constexpr int kColumns = kTileChunk * kLanes;
  for (int column = 0; column < out.stride; column += kColumns) {
    const int width = std::min(kColumns, out.stride - column);
    turn_keys<K>(task, range, column, width, scratch.values);
    mix(Values<float>{task, range.begin, width, scratch.values}, sights, scratch.scores,
        {out.o + column, out.state, out.stride}, task.rows);
  }
}

// Any others, row by row: the whole rows of K where they have to be turned back.
inline void mix_decoded(const AttendTask& task, const SplitRange& range, const Sight* sights,
                        const AttendScratch& scratch, PartialRows out) {
  const KvLayout& layout = task.view.layout;
  const int dim = mixed_dim(layout);
  const int first = dim == layout.shape.v_dim ? layout.shape.v_in_k : 0;
  auto* whole = reinterpret_cast<float*>(scratch.keys);
  float* to = scratch.values;
  for (Position position = range.begin; position < range.end; ++position, to += out.stride) {
    const SlotRun at = run_at(task, position, 1);
    if (at.block == kNoBlock) continue;
    decode_k(task.view, {at.block, task.kv_head, at.slot}, whole);
    std::copy_n(whole + first, dim, to);
    std::fill(to + dim, to + out.stride, 0.0F);
  }
  mix(Values<float>{task, range.begin, out.stride, scratch.values}, sights, scratch.scores, out, task.rows);
}

inline void mix_shared(const AttendTask& task, const SplitRange& range, const Sight* sights,
                       const AttendScratch& scratch, PartialRows out) {
  const KvLayout& layout = task.view.layout;
  const bool in_tiles = layout.block_tokens % kLanes == 0 && in_order(task, range);
  if (in_tiles && layout.k_format == KvFormat::kF32) return mix_turned<float>(task, range, sights, scratch, out);
  if (in_tiles && layout.k_format == KvFormat::kF16) {
    return mix_turned<hwy::float16_t>(task, range, sights, scratch, out);
  }
  if (in_tiles && layout.k_format == KvFormat::kBF16) {
    return mix_turned<hwy::bfloat16_t>(task, range, sights, scratch, out);
  }
  mix_decoded(task, range, sights, scratch, out);
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
