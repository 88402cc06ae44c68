// What the kernels of attention share: which tokens a split has, what a row sees of them, and the scales of its rows.
#pragma once

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "layout/codec_bf16.h"

namespace kvasir::cpu {

struct SplitRange {
  Position begin = 0;
  Position end = 0;

  int tokens() const { return static_cast<int>(end - begin); }
};

// Tokens that lie side by side in one block.
struct SlotRun {
  BlockId block = kNoBlock;
  int slot = 0;
  int count = 0;
};

// From a position on, at most `count` of them. Those of a draft tree lie anywhere, one by one.
inline SlotRun run_at(const AttendTask& task, Position position, int count) {
  const int block_tokens = task.view.layout.block_tokens;
  const Position at = task.path.slot_of(position);
  const auto slot = static_cast<int>(at % block_tokens);
  const Position before_tree = std::max<Position>(task.path.start - position, 1);
  const auto together = static_cast<int>(std::min<Position>(before_tree, block_tokens - slot));
  return {task.sequence.block_of(at, block_tokens), slot, std::min(count, together)};
}

// Whether every token of the range lies at its own position of the table of blocks.
inline bool in_order(const AttendTask& task, const SplitRange& range) { return range.end <= task.path.start; }

inline SplitRange range_of(const AttendTask& task, std::int64_t split) {
  const Position begin = split * kSplitTokens;
  return {begin, std::min<Position>(begin + kSplitTokens, task.positions[task.rows - 1] + 1)};
}

// What a row sees of a split, as ranges of positions inside it: first sinks, then window.
struct Sight {
  int begin[2];
  int end[2];

  bool empty() const { return end[0] == 0 && begin[1] == end[1]; }
  int tiles() const { return (std::max(end[0], end[1]) + kLanes - 1) / kLanes; }  // that hold all it sees
};

inline Sight sight_of(const AttendTask& task, int row, const SplitRange& range) {
  const Position query = task.positions[row];
  const Retention& retention = task.view.retention;
  const Retention& recent_override =
      task.view.recent_override;  // of whose window and sinks another group has the keys
  const Position last = std::min(range.end, query + 1 - recent_override.window);
  const Position sinks = retention.full() ? 0 : std::min(retention.sinks, last);
  const Position window = std::max({retention.window_begin(query), sinks, recent_override.sinks});
  Sight sight;
  sight.begin[0] = 0;
  sight.end[0] = static_cast<int>(std::max<Position>(sinks - range.begin, 0));
  sight.begin[1] = static_cast<int>(std::clamp<Position>(window - range.begin, 0, range.end - range.begin));
  sight.end[1] = std::max(static_cast<int>(last - range.begin), sight.begin[1]);
  return sight;
}

enum class Side : std::uint8_t { kKeys, kValues };

// The scales of a split's rows, [kSplitTokens]; 0 where there is no block. Of slots not yet written it is what their
// memory held: whoever reads them masks them.
inline void read_scales(const AttendTask& task, const SplitRange& range, Side side, float* to) {
  std::memset(to, 0, sizeof(float) * kSplitTokens);
  for (Position at = range.begin; at < range.end;) {
    const SlotRun run = run_at(task, at, static_cast<int>(range.end - at));
    if (run.block != kNoBlock) {
      const std::byte* scales = side == Side::kKeys ? task.view.k_scales(run.block, task.kv_head)
                                                    : task.view.v_scales(run.block, task.kv_head);
      for (int i = 0; i < run.count; ++i) {
        std::uint16_t stored = 0;
        std::memcpy(&stored, scales + (run.slot + i) * kScaleBytes, sizeof stored);
        to[at - range.begin + i] = CodecBF16::decode(stored);
      }
    }
    at += run.count;
  }
}

}  // namespace kvasir::cpu
