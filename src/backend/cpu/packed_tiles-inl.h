// Where the codes of a split lie, for kernels that take 16 keys by 4 dimensions or 16 dimensions by 4 tokens at a
// time, and what is asked for ahead. Included once per target by foreach_target.

#if defined(KVASIR_PACKED_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_PACKED_TILES_INL_H_
#undef KVASIR_PACKED_TILES_INL_H_
#else
#define KVASIR_PACKED_TILES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/attention_split.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/lanes-inl.h"
#include "backend/cpu/quant_panels.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir::cpu::HWY_NAMESPACE {

inline constexpr int kCodeTile = kLanes * kQuad;  // bytes of 16 keys by 4, or of 16 dimensions by 4 tokens

// The tiles of 16 keys of a split, [groups][16 keys][4], groups `stride` bytes apart. Blocks lie anywhere, so the
// machine cannot guess where the next one is. While keys are worked on, the values of the same tokens are asked for,
// and while values are, the keys of the next split: all the time about the same is on its way.
struct PackedTiles {
  const std::byte* at[kSplitTokens / kLanes];
  const std::byte* values[kSplitTokens / kLanes];  // of the same tokens
  int index[kSplitTokens / kLanes];
  int count = 0;
  std::int64_t stride = 0;
};

// Copies 16 keys into a tile of their own, for block sizes that 16 does not divide.
inline void gather_keys(const AttendTask& task, Position first, Position end, int groups, std::byte* to) {
  const int block_tokens = task.view.layout.block_tokens;
  std::memset(to, 0, static_cast<size_t>(groups) * kCodeTile);
  for (int i = 0; i < kLanes && first + i < end; ++i) {
    const SlotRun at = run_at(task, first + i, 1);
    if (at.block == kNoBlock) continue;
    const std::byte* head = task.view.k_head(at.block, task.kv_head) + at.slot * kQuad;
    for (int g = 0; g < groups; ++g) {
      std::memcpy(to + (g * kLanes + i) * kQuad, head + static_cast<std::int64_t>(g) * block_tokens * kQuad, kQuad);
    }
  }
}

inline PackedTiles packed_tiles(const AttendTask& task, const SplitRange& range, int groups, std::byte* room) {
  const int block_tokens = task.view.layout.block_tokens;
  const bool direct = block_tokens % kLanes == 0 && in_order(task, range);
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
    } else {
      std::byte* to = room + static_cast<std::ptrdiff_t>(index) * groups * kCodeTile;
      gather_keys(task, first, range.end, groups, to);
      tiles.at[tiles.count] = tiles.values[tiles.count] = to;
    }
    tiles.index[tiles.count++] = index;
  }
  return tiles;
}

// Four tokens of a split side by side, [columns][4], for each four that lie in a block.
struct ValueQuads {
  const std::byte* at[kSplitTokens / kQuad];
  int token[kSplitTokens / kQuad];
  int count = 0;
  int columns = 0;  // 16 divides it
};

// Copies four tokens, for block sizes that 4, or columns that 16, does not divide, and for those of a draft tree.
inline void gather_quad(const AttendTask& task, const SplitRange& range, int columns, std::byte* to) {
  const bool quads = task.view.layout.block_tokens % kQuad == 0;
  for (int i = 0; i < kQuad && range.begin + i < range.end; ++i) {
    const SlotRun at = run_at(task, range.begin + i, kQuad);
    if (at.block == kNoBlock) continue;
    const std::byte* head = task.view.v_head(at.block, task.kv_head);
    if (quads && i == 0 && at.count == kQuad) {
      std::memcpy(to, head + static_cast<std::int64_t>(at.slot) * columns, static_cast<size_t>(columns) * kQuad);
      return;
    }
    const int step = quads ? kQuad : 1;
    const std::byte* from = head + static_cast<std::int64_t>(at.slot / step) * step * columns + at.slot % step;
    for (int c = 0; c < columns; ++c) to[c * kQuad + i] = from[c * step];
  }
}

inline ValueQuads value_quads(const AttendTask& task, const SplitRange& range, int columns, std::byte* room) {
  const int block_tokens = task.view.layout.block_tokens;
  ValueQuads quads;
  quads.columns = (columns + kLanes - 1) / kLanes * kLanes;
  if (block_tokens % kQuad == 0 && columns % kLanes == 0 && in_order(task, range)) {
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
    gather_quad(task, {first, range.end}, columns, to);
    quads.at[quads.count] = to;
    quads.token[quads.count++] = static_cast<int>(first - range.begin);
  }
  return quads;
}

// Where the keys of the next split lie, by tiles of 16 tokens: to be asked for, line by line.
struct KeysAhead {
  static constexpr int kLine = 64;
  const std::byte* at[kSplitTokens / kLanes] = {};
  int lines = 0;  // of a tile; 0: nobody knows where they are
};

inline KeysAhead keys_ahead(const AttendTask& task, const SplitRange& range) {
  const KvLayout& layout = task.view.layout;
  KeysAhead ahead;
  if (layout.block_tokens != kLanes || range.begin + 2 * kSplitTokens > task.positions[task.rows - 1]) return ahead;
  for (int tile = 0; tile < kSplitTokens / kLanes; ++tile) {
    const BlockId block = task.sequence.block_of(range.begin + kSplitTokens + tile * kLanes, layout.block_tokens);
    if (block == kNoBlock) return ahead;
    ahead.at[tile] = task.view.k_head(block, task.kv_head);
  }
  ahead.lines = static_cast<int>(layout.k_head_bytes / KeysAhead::kLine);
  return ahead;
}

}  // namespace kvasir::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
