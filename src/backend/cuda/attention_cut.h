// How a batch is cut for attention kernels: tiles of rows, groups of them, and the spans that they see.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/attention_args.h"
#include "layout/retention.h"

namespace kvasir::cuda {

// Of the query heads of a KV head, as many as fill a tile evenly.
int heads_of_tile(int heads_per_kv);

// Of so many tokens of the sequence, from `first_token` of its rows on: without a place among other tiles.
AttentionTile make_tile(const SequenceView& sequence, const Retention& retention, int first_token, int tokens);

// What the tile sees of each span, behind those of the tiles before it.
void add_spans(std::vector<SpanItems>& to, AttentionTile& tile);

// So many KV heads of these tiles, given to processors as whole rows: as RowWalk does.
struct WholeRows {
  bool balanced = false;  // all processors are about equally busy, and no row has sinks, or shares a prefix
  int spans = 0;          // of all of them
  int sure_spans = 0;     // of each processor at least, in the rounds in which all have a row

  // Whether so many warps of each processor, with a span each, are busy most of the time.
  bool suit(int warps, int processors) const { return balanced && spans * 8 >= processors * warps * 7; }
};
WholeRows whole_rows(std::span<const AttentionTile> tiles, int heads, int processors);

// As many thread blocks as are to share each of so few rows, so that all processors are about equally busy; 0 if none
// are.
int parts_of_rows(std::span<const AttentionTile> tiles, int heads, int processors);

// Whether thread blocks may take whole spans instead of items: if there are so many that all processors are busy most
// of the time, and they have items enough to be worth it.
struct SpansAndItems {
  int spans = 0;  // of a KV head, as items
  int items = 0;
};
bool whole_spans_suit(const SpansAndItems& of, int heads, int processors);

// All rows of the sequence, whose blocks are at `blocks` on the device.
void add_groups(std::vector<AttentionGroup>& to, const SequenceView& sequence, const Retention& retention,
                int heads_per_kv, const BlockId* blocks);

// Those that look at the most come first, so that all end at about the same time.
void sort_groups(std::vector<AttentionGroup>& groups);

}  // namespace kvasir::cuda
