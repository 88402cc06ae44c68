// What attention kernels are given, by value, and how a batch is cut for them.
//
// A tile is up to 8 rows of the tensor cores: the query heads of one KV head, for one or more neighbouring tokens of
// one sequence. The context is cut into splits of kSplitTokens, at fixed positions; inside a split softmax runs over
// kTileTokens keys at a time. kSpanSplits splits are a span, at fixed positions too: splits merge in order into the
// sum of their span, and these, in order, into the whole. All of that depends on the row and its keys alone: so which
// kernel computes it, together with what, on how many processors, changes no bit. A split or a span of which a row
// sees nothing adds nothing, and so may be left out.
#pragma once

#include <vector_types.h>

#include <cstdint>

#include "backend/cuda/convert_rows.h"
#include "backend/tensor.h"
#include "layout/kv_view.h"
#include "layout/softmax_state.h"

namespace kvasir::cuda {

inline constexpr int kTileRows = 8;
inline constexpr int kTileTokens = 64;
inline constexpr int kSplitTokens = 256;
inline constexpr int kSpanSplits = 8;
KVASIR_HD constexpr int spans_of(int splits) { return (splits + kSpanSplits - 1) / kSpanSplits; }
inline constexpr int kBlockOfTile = 16;  // tokens whose K, and whose V, lie side by side in shared memory

// Sums over the prefix that a sequence shares with others, in AttentionArgs::begun_out: each is of `splits` splits
// but for the last, which may have less, and either of one or of a span.
struct BegunSums {
  int count = 0;  // none: the sequence shares no prefix
  int splits = 1;
  std::int64_t at = 0;    // the first one, of head 0 of a token
  std::int64_t step = 0;  // to the next ones of the same row; heads lie side by side, tokens behind each other
};

// Splits [0, sink_splits) and [first_split, end_split) are those that a row of the tile may see.
struct AttentionTile {
  int sequence = 0;
  int first_token = 0;  // of the sequence's rows
  int tokens = 0;
  int first_head = 0;  // of the query heads of a KV head; not 0 where there are more than kTileRows
  int sink_splits = 0;
  int first_split = 0;
  int end_split = 0;
  int first_item = 0;  // splits of the tiles before it
  int first_span = 0;  // spans of the tiles before it
  BegunSums begun;     // over what lies before first_split

  KVASIR_HD int splits() const { return sink_splits + end_split - first_split; }
  KVASIR_HD int split_at(int index) const { return index < sink_splits ? index : first_split + index - sink_splits; }
};

inline constexpr int kRowsOfGroup = 128;

// Neighbouring tokens of one sequence, in up to kRowsOfGroup rows (a token's heads of a tile side by side) that go
// through the context together.
struct AttentionGroup {
  const BlockId* blocks = nullptr;  // of the sequence, on the device
  Position query = 0;               // of its first token
  int row = 0;                      // of the batch, of its first token
  int tokens = 0;
  int after = 0;                // see AttentionItem
  std::int16_t first_head = 0;  // see AttentionTile, as those below
  int sink_splits = 0;
  int first_split = 0;
  int end_split = 0;

  KVASIR_HD int splits() const { return sink_splits + end_split - first_split; }
  KVASIR_HD int split_at(int index) const { return index < sink_splits ? index : first_split + index - sink_splits; }
};

inline constexpr int kRowsOfPrefix = 128;

// Tokens of several sequences that begin with the same blocks, and go through these together: each with all query
// heads of a KV head, up to kRowsOfPrefix rows in all.
struct PrefixGroup {
  const BlockId* blocks = nullptr;  // on the device
  int first = 0;                    // of PrefixArgs::rows
  int tokens = 0;
  BegunSums sums;  // of its first token
};

// Splits of a group and KV head that a thread block goes through, all of them before all of the group's tokens: those
// of a span, or some that each have a sum of their own.
struct PrefixPiece {
  int group = 0;
  int kv_head = 0;
  int first_split = 0;
  int splits = 0;
};

// One split of one tile, with all that a kernel needs to begin: it is read far ahead.
struct alignas(16) AttentionItem {
  const BlockId* blocks = nullptr;  // of the sequence, on the device
  Position query = 0;               // of the tile's first token
  int first_key = 0;                // of the split, in units of kSplitTokens
  int row = 0;                      // of the batch, of the tile's first token
  std::int16_t tokens = 0;
  std::int16_t first_head = 0;
  int after =
      0;  // tokens of the sequence behind the tile's first, itself included: where nothing is written any more
};

// What a tile sees of a span: neighbouring items.
struct alignas(8) SpanItems {
  int first_item = 0;
  int splits = 0;
};

// Warps of a thread block over boxes. 8 have room in shared memory and in registers, or 7 of heads of 128. Six are no
// slower with many splits, and end sooner together with few.
constexpr int warps_over_boxes(int dim) { return dim == 64 ? 8 : 6; }

// Warps that take turns at the spans of a thread block's rows: over 16, 8, and 4 or 2 bits.
inline constexpr int kWarpsOfRows = 4;
inline constexpr int kWarpsOfByteRows = 8;
inline constexpr int kWarpsOfPackedRows = 16;
constexpr int warps_of_coded_rows(KvFormat format) {
  return format == KvFormat::kInt4 || format == KvFormat::kInt2 ? kWarpsOfPackedRows : kWarpsOfByteRows;
}
// Rows whose sums so many warps have room for: those of the ones behind them wait.
KVASIR_HD constexpr int rows_at_once(int warps) { return warps > kWarpsOfByteRows ? kWarpsOfRows : warps; }

// Where as many thread blocks share a row, each takes so many of its spans, or what is left of them.
inline constexpr int kMostSpansOfPart = 16;
KVASIR_HD constexpr int spans_of_part(int splits, int blocks) { return (spans_of(splits) + blocks - 1) / blocks; }

// Row `row` of a tile is query head first_head + row % heads of token first_token + row / heads.
struct AttentionArgs {
  int processors = 0;  // of the device
  KvView view;
  const SequenceView* sequences = nullptr;  // on the device, and their tables
  const AttentionTile* tiles = nullptr;     // on the device
  int tile_count = 0;
  int first_item = 0;                    // of the first tile
  const AttentionItem* items = nullptr;  // on the device: of all tiles, one after the other
  int item_count = 0;
  const SpanItems* spans = nullptr;  // on the device: of all tiles of the batch, one after the other
  int first_span = 0;                // of the first tile
  int span_count = 0;
  bool folds_spans = false;  // sums of a span are in the place of its last item, not those of each of its splits
  const AttentionItem* rows = nullptr;     // on the device: tiles, for kernels that finish rows; first_key: splits
  bool draws_rows = false;                 // those of the last round: see RowWalk
  int blocks_of_row = 1;                   // thread blocks that share one
  bool begins_early = false;               // none of the batch's kernels writes what lies before the queries
  const AttentionGroup* groups = nullptr;  // on the device: instead of tiles, where there are many rows
  int group_count = 0;
  int* taken = nullptr;      // on the device, 0: items that were begun, times KV heads
  int piece_count = 0;       // of prefixes, beside whose kernel this one runs: see Order
  int reserved = 0;          // items, times KV heads, the last ones, for thread blocks …
  unsigned busy_blocks = 0;  // … from this one on, whose processors have none of these pieces
  int heads_per_kv = 0;      // query heads of a KV head
  int first_kv_head = 0;     // of the queries', which is the view's first: groups alone may be of some heads
  int heads_of_tile = 0;     // of those, in a tile
  int most_rows = 0;         // that a tile has
  float scale = 1.0F;        // of scores, for powers of two: includes log2(e)
  Matrix queries;            // [rows][heads * k_dim], as they came; rows begin at multiples of 8 bytes, as out's
  const std::uint16_t* q = nullptr;  // [rows][heads][k_stride], 16-bit numbers as the kernels multiply them
  const float* q_scales = nullptr;   // [rows][heads], or null: 1
  int k_stride = 0;
  Matrix out;                           // [rows][heads * v_dim]
  RowsRoom also;                        // for out as well
  SoftmaxState* states = nullptr;       // [rows][heads], or null
  float* part_out = nullptr;            // [items][KV heads][kTileRows][v_stride]: sums of a split
  SoftmaxState* part_states = nullptr;  // [items][KV heads][kTileRows], m for powers of two
  // Sums over the prefixes that sequences share, like those of a split: see BegunSums.
  float* begun_out = nullptr;  // [sums][v_stride]
  SoftmaxState* begun_states = nullptr;
  int v_stride = 0;
  bool turns = false;  // outputs are turned by hadamard() at last
};

// Prefixes that sequences of a batch share.
struct PrefixArgs {
  const PrefixGroup* groups = nullptr;  // on the device, as all of these
  const PrefixPiece* pieces = nullptr;
  int piece_count = 0;
  const int* rows = nullptr;      // of the batch
  const float* scales = nullptr;  // of widened blocks that have them (wide_blocks.h)
};

}  // namespace kvasir::cuda
