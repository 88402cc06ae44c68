// Weighted sums of value rows: lane = dimension, rows in the order of the keys. Included once per target by
// foreach_target.

#if defined(KVASIR_ATTENTION_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_ATTENTION_VALUES_INL_H_
#undef KVASIR_ATTENTION_VALUES_INL_H_
#else
#define KVASIR_ATTENTION_VALUES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/attention_split.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

inline constexpr int kRowChunk = kParts == 1 ? 4 : 2;   // query rows that share a load of K or V
inline constexpr int kTileChunk = kParts == 1 ? 4 : 2;  // key tiles, or groups of 16 dimensions, at once

// `count` value rows, `stride` elements apart, added to R rows of o with their weights.
template <class T>
struct ValueRun {
  const T* rows;
  std::int64_t stride;
  int count;
  const float* weights;  // of row 0; row r's are r * kSplitTokens further
};

template <class T, int R, int C>
HWY_INLINE void mix_chunk(const ValueRun<T>& run, float* o, int o_stride, int column) {
  Lanes sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sums[r][c] = load(o + r * o_stride + column + c * kLanes);
  }
  for (int i = 0; i < run.count; ++i) {
    Lanes values[C];
    for (int c = 0; c < C; ++c) values[c] = load(run.rows + i * run.stride + column + c * kLanes);
    for (int r = 0; r < R; ++r) {
      const Lanes weight = broadcast(run.weights[r * kSplitTokens + i]);
      for (int c = 0; c < C; ++c) sums[r][c] = fma(weight, values[c], sums[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) store(sums[r][c], o + r * o_stride + column + c * kLanes);
  }
}

template <class T, int R>
void mix_run(const ValueRun<T>& run, int width, float* o, int o_stride) {
  int column = 0;
  for (; column + kTileChunk * kLanes <= width; column += kTileChunk * kLanes) {
    mix_chunk<T, R, kTileChunk>(run, o, o_stride, column);
  }
  for (; column < width; column += kLanes) mix_chunk<T, R, 1>(run, o, o_stride, column);
}

// Where a split's value rows are, run by run: rows of one block lie one after the other.
template <class T>
struct Values {
  const AttendTask& task;
  Position begin;
  int width;            // numbers of a row that are mixed, a multiple of 16
  const float* padded;  // where rows cannot be read as they lie: all rows of the split as floats, [width] each

  // Adds the rows [from, to) of the split to R rows of o.
  template <int R>
  void mix(int from, int to, const float* weights, float* o, int o_stride) const {
    if (padded != nullptr) {
      if (from < to) {
        mix_run<float, R>({padded + from * width, width, to - from, weights + from}, width, o, o_stride);
      }
      return;
    }
    while (from < to) {
      const SlotRun run = run_at(task, begin + from, to - from);
      const auto* rows =
          reinterpret_cast<const T*>(task.view.v_head(run.block, task.kv_head)) + task.view.v_index(run.slot, 0);
      mix_run<T, R>({rows, task.view.layout.shape.v_dim, run.count, weights + from}, width, o, o_stride);
      from += run.count;
    }
  }
};

// R rows whose sights overlap share the reads of what all of them see; the ends are each row's own.
template <class T, int R>
void mix_rows(const Values<T>& values, const Sight* sights, const float* weights, float* o, int o_stride) {
  for (int part = 0; part < 2; ++part) {
    int begin = sights[0].begin[part];
    int end = sights[0].end[part];
    for (int r = 1; r < R; ++r) {
      begin = std::max(begin, sights[r].begin[part]);
      end = std::min(end, sights[r].end[part]);
    }
    end = std::max(begin, end);
    for (int r = 0; r < R; ++r) {
      const int own_end = std::min(begin, sights[r].end[part]);
      values.template mix<1>(sights[r].begin[part], own_end, weights + r * kSplitTokens, o + r * o_stride, o_stride);
    }
    values.template mix<R>(begin, end, weights, o, o_stride);
    for (int r = 0; r < R; ++r) {
      const int own_begin = std::max(end, sights[r].begin[part]);
      values.template mix<1>(own_begin, sights[r].end[part], weights + r * kSplitTokens, o + r * o_stride, o_stride);
    }
  }
}

template <class T>
void mix(const Values<T>& values, const Sight* sights, const float* weights, PartialRows out, int rows) {
  for (int row = 0; row < rows;) {
    const float* w = weights + row * kSplitTokens;
    float* o = out.o + row * out.stride;
    switch (std::min(rows - row, kRowChunk)) {
      case 1:
        mix_rows<T, 1>(values, sights + row, w, o, out.stride), row += 1;
        break;
      case 2:
        mix_rows<T, 2>(values, sights + row, w, o, out.stride), row += 2;
        break;
      case 3:
        mix_rows<T, 3>(values, sights + row, w, o, out.stride), row += 3;
        break;
      default:
        mix_rows<T, 4>(values, sights + row, w, o, out.stride), row += 4;
        break;
    }
  }
}

// Value rows whose length 16 does not divide, as padded floats.
template <class T>
void pad_values(const AttendTask& task, Position begin, Position end, float* to, int stride) {
  for (Position position = begin; position < end; ++position, to += stride) {
    const SlotRun at = run_at(task, position, 1);
    if (at.block == kNoBlock) continue;
    const T* row =
        reinterpret_cast<const T*>(task.view.v_head(at.block, task.kv_head)) + task.view.v_index(at.slot, 0);
    HWY_ALIGN float wide[kLanes];
    for (int column = 0; column < stride; column += kLanes) {
      const int n = std::min(kLanes, task.view.layout.shape.v_dim - column);
      HWY_ALIGN T narrow[kLanes] = {};
      std::memcpy(static_cast<void*>(narrow), row + column, sizeof(T) * static_cast<size_t>(n));
      store(load(narrow), wide);
      std::memcpy(to + column, wide, sizeof wide);
    }
  }
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
