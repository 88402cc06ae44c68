// How a batch is partitioned for attention kernels: tiles, chunk groups, prefill tiles, whole rows.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/attention/attention_args.h"
#include "layout/retention.h"

namespace kvasir::cuda {

// As many query heads of a KV head as fill a tile evenly.
int heads_of_tile(int heads_per_kv);

// The tile of `tokens` tokens from `first_token` of the sequence's rows on; its item and group indices are not set.
AttentionTile make_tile(const SequenceView& sequence, const Retention& retention, int first_token, int tokens);

// Appends the tile's chunk groups and sets its first_chunk_group.
void add_chunk_groups(std::vector<ChunkGroup>& to, AttentionTile& tile);

// Whole rows, for `heads` KV heads, as RowScheduler gives them to SMs.
struct WholeRows {
  bool balanced = false;  // all SMs are about equally busy, and no row has sinks or shares a prefix
  int chunk_groups = 0;   // of all rows
  int least_groups = 0;   // of every SM, in the rounds in which each has a row

  // Whether `warps` warps an SM, with a chunk group each, are busy most of the time.
  bool fits(int warps, int sm_count) const { return balanced && chunk_groups * 8 >= sm_count * warps * 7; }
};
WholeRows whole_rows(std::span<const AttentionTile> tiles, int heads, int sm_count);

// The CTAs of a cluster that shares a row, where rows are so few that this keeps all SMs about equally busy; 0: it
// does not.
int ctas_per_row(std::span<const AttentionTile> tiles, int heads, int sm_count);

// Whether CTAs should take whole chunk groups instead of items: they keep all SMs busy most of the time, and have
// enough items each.
struct GroupsAndItems {
  int chunk_groups = 0;  // of a KV head, as items
  int items = 0;
};
bool whole_groups_fit(const GroupsAndItems& of, int heads, int sm_count);

// Appends the prefill tiles of all rows of the sequence, whose block table is `blocks` on the device.
void add_prefill_tiles(std::vector<PrefillTile>& to, const SequenceView& sequence, const Retention& retention,
                       int heads_per_kv, const BlockId* blocks);

// Sorts tiles that read the most keys first, so that CTAs end at about the same time.
void sort_prefill_tiles(std::vector<PrefillTile>& tiles);

}  // namespace kvasir::cuda
