// Attention of a tile of queries over one split of the context.
//
// Scores: lane = key; a query's numbers are broadcast against 16 keys at a time, in the order of the dimensions.
// Values: lane = dimension; value rows are added in the order of the keys. The only sum across lanes is that of the
// weights, through the tree in lanes-inl.h. Keys outside a row's sight get the weight 0 exactly and are never
// multiplied with: a row cannot tell which other rows were in its tile.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which re-includes this file once per target.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/attention_split.h"
#include "backend/cpu/attention_values-inl.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"
#include "backend/cpu/pruned_rows-inl.h"
#include "backend/cpu/score_rule-inl.h"
#include "backend/cpu/shared_values-inl.h"
#include "base/check.h"
#include "layout/codec.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

inline constexpr float kMasked = -std::numeric_limits<float>::infinity();
inline constexpr int kTilesPerSplit = kSplitTokens / kLanes;

// --- scores
// ---------------------------------------------------------------------------------------------------------

// The key tiles of a split that some row may see. All have one stride between dimensions.
template <class T>
struct KeyTiles {
  const T* keys[kTilesPerSplit];
  int index[kTilesPerSplit];
  int count = 0;
  std::int64_t stride = 0;
};

// Copies 16 keys into a tile of their own, for block sizes that 16 does not divide and for draft trees. Keys not yet
// written are zero.
template <class T>
const T* gather_tile(const AttendTask& task, Position first, Position end, T* to) {
  const KvLayout& layout = task.view.layout;
  std::memset(static_cast<void*>(to), 0, sizeof(T) * kLanes * static_cast<size_t>(layout.shape.k_dim));
  for (int i = 0; i < kLanes && first + i < end; ++i) {
    const SlotRun at = run_at(task, first + i, 1);
    if (at.block == kNoBlock) continue;
    const auto* head = reinterpret_cast<const T*>(task.view.k_head(at.block, task.kv_head));
    for (int d = 0; d < layout.shape.k_dim; ++d) to[d * kLanes + i] = head[task.view.k_index(at.slot, d)];
  }
  return to;
}

template <class T>
KeyTiles<T> key_tiles(const AttendTask& task, const SplitRange& range, std::byte* room) {
  const auto [begin, end] = range;
  const KvLayout& layout = task.view.layout;
  const bool direct = layout.block_tokens % kLanes == 0 && in_order(task, range);
  KeyTiles<T> tiles;
  tiles.stride = direct ? layout.block_tokens : kLanes;
  for (Position first = begin; first < end; first += kLanes) {
    const int index = static_cast<int>((first - begin) / kLanes);
    const T* keys = nullptr;
    if (direct) {
      const BlockId block = task.sequence.block_of(first, layout.block_tokens);
      if (block == kNoBlock) continue;
      keys = reinterpret_cast<const T*>(task.view.k_head(block, task.kv_head)) + first % layout.block_tokens;
    } else {
      keys = gather_tile(task, first, end, reinterpret_cast<T*>(room) + index * kLanes * layout.shape.k_dim);
    }
    tiles.index[tiles.count] = index;
    tiles.keys[tiles.count++] = keys;
  }
  return tiles;
}

template <class T, int R, int N>
HWY_INLINE void score_chunk(const KeyTiles<T>& tiles, int first_tile, const float* q, int k_dim, float* scores) {
  Lanes sums[R][N];
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) sums[r][n] = broadcast(0.0F);
  }
  for (int d = 0; d < k_dim; ++d) {
    Lanes keys[N];
    for (int n = 0; n < N; ++n) keys[n] = load(tiles.keys[first_tile + n] + d * tiles.stride);
    for (int r = 0; r < R; ++r) {
      const Lanes value = broadcast(q[r * k_dim + d]);
      for (int n = 0; n < N; ++n) sums[r][n] = fma(value, keys[n], sums[r][n]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) {
      store(sums[r][n], scores + r * kSplitTokens + tiles.index[first_tile + n] * kLanes);
    }
  }
}

template <class T, int R>
void score_rows(const KeyTiles<T>& tiles, const float* q, int k_dim, float* scores) {
  int tile = 0;
  for (; tile + kTileChunk <= tiles.count; tile += kTileChunk) {
    score_chunk<T, R, kTileChunk>(tiles, tile, q, k_dim, scores);
  }
  for (; tile < tiles.count; ++tile) score_chunk<T, R, 1>(tiles, tile, q, k_dim, scores);
}

template <class T>
void score(const AttendTask& task, const KeyTiles<T>& tiles, float* scores) {
  const int k_dim = task.view.layout.shape.k_dim;
  for (int row = 0; row < task.rows;) {
    const float* q = task.q + row * k_dim;
    float* to = scores + row * kSplitTokens;
    switch (std::min(task.rows - row, kRowChunk)) {
      case 1:
        score_rows<T, 1>(tiles, q, k_dim, to), row += 1;
        break;
      case 2:
        score_rows<T, 2>(tiles, q, k_dim, to), row += 2;
        break;
      case 3:
        score_rows<T, 3>(tiles, q, k_dim, to), row += 3;
        break;
      default:
        score_rows<T, 4>(tiles, q, k_dim, to), row += 4;
        break;
    }
  }
}

// --- weights
// --------------------------------------------------------------------------------------------------------

// Scores become weights, in place; what the row does not see becomes 0. The state of an empty row stays empty.
HWY_INLINE SoftmaxState weigh(float* scores, const Sight& sight) {
  SoftmaxState state;
  if (sight.empty()) return state;
  const int tiles = sight.tiles();
  for (int i = sight.end[0]; i < sight.begin[1]; ++i) scores[i] = kMasked;
  for (int i = std::max(sight.end[0], sight.end[1]); i < tiles * kLanes; ++i) scores[i] = kMasked;
  Lanes top = broadcast(kMasked);
  for (int tile = 0; tile < tiles; ++tile) top = max(top, load(scores + tile * kLanes));
  state.m = max_lanes(top);
  const Lanes shift = broadcast(state.m);
  Lanes sums = broadcast(0.0F);
  for (int tile = 0; tile < tiles; ++tile) {
    const Lanes weights = exp(sub(load(scores + tile * kLanes), shift));
    store(weights, scores + tile * kLanes);
    sums = add(sums, weights);
  }
  state.d = sum_lanes(sums);
  return state;
}

// --- the split
// ------------------------------------------------------------------------------------------------------

template <class K>
void score_keys(const AttendTask& task, const SplitRange& range, const AttendScratch& scratch) {
  score(task, key_tiles<K>(task, range, scratch.keys), scratch.scores);
}

template <class V>
void mix_values(const AttendTask& task, const SplitRange& range, const Sight* sights, const AttendScratch& scratch,
                PartialRows out) {
  const float* padded = nullptr;
  if (task.view.layout.shape.v_dim % kLanes != 0) {
    pad_values<V>(task, range.begin, range.end, scratch.values, out.stride);
    padded = scratch.values;
  }
  mix(Values<V>{task, range.begin, out.stride, padded}, sights, scratch.scores, out, task.rows);
}

// --- rows with scales

// Scores are of unscaled keys: a key's scale comes after its dot product.
void scale_scores(const AttendTask& task, const SplitRange& range, const AttendScratch& scratch) {
  HWY_ALIGN float scales[kSplitTokens];
  read_scales(task, range, Side::kKeys, scales);
  const int tokens = (range.tokens() + kLanes - 1) / kLanes * kLanes;
  for (int row = 0; row < task.rows; ++row) {
    float* scores = scratch.scores + row * kSplitTokens;
    for (int t = 0; t < tokens; t += kLanes) store(mul(load(scores + t), load(scales + t)), scores + t);
  }
}

// A value's scale goes to its weight. What a row does not see is not read.
void scale_weights(const AttendTask& task, const SplitRange& range, const Sight* sights,
                   const AttendScratch& scratch) {
  HWY_ALIGN float scales[kSplitTokens];
  read_scales(task, range, Side::kValues, scales);
  for (int row = 0; row < task.rows; ++row) {
    float* weights = scratch.scores + row * kSplitTokens;
    for (int t = 0; t < sights[row].tiles() * kLanes; t += kLanes) {
      store(mul(load(weights + t), load(scales + t)), weights + t);
    }
  }
}

// --- pruned rows

template <class Codec>
void score_pruned(const AttendTask& task, const SplitRange& range, const AttendScratch& scratch) {
  auto* keys = reinterpret_cast<float*>(scratch.keys);
  expand_keys<Codec>(task, range, keys);
  KeyTiles<float> tiles;
  tiles.stride = kLanes;
  for (; tiles.count * kLanes < range.tokens(); ++tiles.count) {
    tiles.index[tiles.count] = tiles.count;
    tiles.keys[tiles.count] = keys + static_cast<std::ptrdiff_t>(tiles.count) * kLanes * task.view.layout.shape.k_dim;
  }
  score(task, tiles, scratch.scores);
}

template <class Codec>
void mix_pruned(const AttendTask& task, const SplitRange& range, const Sight* sights, const AttendScratch& scratch,
                PartialRows out) {
  expand_values<Codec>(task, range, scratch.values, out.stride);
  mix(Values<float>{task, range.begin, out.stride, scratch.values}, sights, scratch.scores, out, task.rows);
}

// --- the steps

void score_split(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows) {
  const SplitRange range = range_of(task, split);
  switch (task.view.layout.k_format) {
    case KvFormat::kF32:
      return score_keys<float>(task, range, scratch);
    case KvFormat::kF16:
      return score_keys<hwy::float16_t>(task, range, scratch);
    case KvFormat::kBF16:
      return score_keys<hwy::bfloat16_t>(task, range, scratch);
    case KvFormat::kE4M3:
      score_keys<Fp8E4M3>(task, range, scratch);
      return scale_scores(task, range, scratch);
    case KvFormat::kE5M2:
      score_keys<Fp8E5M2>(task, range, scratch);
      return scale_scores(task, range, scratch);
    case KvFormat::kTop50:
      return score_pruned<CodecTop50>(task, range, scratch);
    case KvFormat::kTop25:
      return score_pruned<CodecTop25>(task, range, scratch);
    case KvFormat::kInt8:
    case KvFormat::kInt4:
    case KvFormat::kInt2:
      break;  // packed_attention_kernels.cpp
  }
  CHECK(false);
}

void adjust_split(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows) {
  const SplitRange range = range_of(task, split);
  for (int row = 0; row < task.rows; ++row) {
    const int tiles = sight_of(task, row, range).tiles();
    float* scores = scratch.scores + row * kSplitTokens;
    if (task.rule.softcap != 0.0F) cap_scores(task.rule.softcap, scores, tiles);
    add_bias(task, row, range, scores, tiles);
  }
}

void weigh_split(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows out) {
  const SplitRange range = range_of(task, split);
  for (int row = 0; row < task.rows; ++row) {
    out.state[row] = weigh(scratch.scores + row * kSplitTokens, sight_of(task, row, range));
  }
}

void mix_split(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows out) {
  const SplitRange range = range_of(task, split);
  std::memset(out.o, 0, sizeof(float) * static_cast<size_t>(task.rows * out.stride));
  Sight sights[kMaxQueryRows];
  for (int row = 0; row < task.rows; ++row) sights[row] = sight_of(task, row, range);
  if (!task.view.layout.shape.has_v()) return mix_shared(task, range, sights, scratch, out);
  const KvFormat format = task.view.layout.v_format;
  if (has_scale(format)) scale_weights(task, range, sights, scratch);
  switch (format) {
    case KvFormat::kF32:
      return mix_values<float>(task, range, sights, scratch, out);
    case KvFormat::kF16:
      return mix_values<hwy::float16_t>(task, range, sights, scratch, out);
    case KvFormat::kBF16:
      return mix_values<hwy::bfloat16_t>(task, range, sights, scratch, out);
    case KvFormat::kE4M3:
      return mix_values<Fp8E4M3>(task, range, sights, scratch, out);
    case KvFormat::kE5M2:
      return mix_values<Fp8E5M2>(task, range, sights, scratch, out);
    case KvFormat::kTop50:
      return mix_pruned<CodecTop50>(task, range, sights, scratch, out);
    case KvFormat::kTop25:
      return mix_pruned<CodecTop25>(task, range, sights, scratch, out);
    case KvFormat::kInt8:
    case KvFormat::kInt4:
    case KvFormat::kInt2:
      break;  // packed_attention_kernels.cpp
  }
  CHECK(false);
}

void merge_rows(PartialRows into, PartialRows from, int rows) {
  for (int row = 0; row < rows; ++row) {
    const SoftmaxMerge merged = merge(into.state[row], from.state[row]);
    into.state[row] = merged.state;
    const Lanes first = broadcast(merged.first_scale);
    const Lanes second = broadcast(merged.second_scale);
    float* a = into.o + row * into.stride;
    const float* b = from.o + row * from.stride;
    for (int i = 0; i < into.stride; i += kLanes) {
      store(fma(load(a + i), first, mul(load(b + i), second)), a + i);
    }
  }
}

void finish_row(PartialRows sums, int row, int v_dim, float* out) {
  const float d = sums.state[row].d;
  const float* o = sums.o + row * sums.stride;
  for (int i = 0; i < v_dim; ++i) out[i] = o[i] / d;
}

AttentionKernels attention_table() {
  return {&score_split, &adjust_split, &weigh_split, &mix_split, &merge_rows, &finish_row};
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/targets.h"

namespace kvasir::cpu {

AttentionKernels attention_kernels(Isa isa) { KVASIR_CHOOSE(isa, attention_table); }

}  // namespace kvasir::cpu
#endif
