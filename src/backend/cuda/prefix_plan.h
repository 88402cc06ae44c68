// How sequences of a batch that begin with the same blocks go through these together: shared_attention.cu's work.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention_args.h"

namespace kvasir::cuda {

struct PrefixPlan {
  std::vector<PrefixGroup> groups;
  std::vector<PrefixPiece> pieces;
  std::vector<int> rows;  // of the batch
  std::int64_t sums = 0;  // room that they need, in sums of one row and head
  // Of each sequence, of its first token; how many splits they are of.
  std::vector<BegunSums> begun;
  std::vector<int> begun_splits;
};

struct PrefixRules {
  int heads_per_kv = 1;
  int most_rows = 0;                    // of a sequence that may be in a group
  std::int64_t worth_bytes = 32 << 20;  // that need not be read: as many as make another launch worth its time
  int cost = 0;                         // see PrefixPieces
  int processors = 1;
};

// What widening a prefix costs, in sequences that would read it as it lies (PrefixRules::cost).
int cost_of_widening(const KvLayout& layout);

// `tables`: blocks of each sequence, on the device.
PrefixPlan plan_prefixes(const AttentionBatch& batch, std::span<const BlockId* const> tables,
                         const PrefixRules& rules);

// Splits of each group.
std::vector<int> splits_of_groups(const PrefixPlan& plan);

// How prefixes of so many splits, each of a group of rows and of one of `heads` KV heads, are divided among
// processors.
struct PrefixCut {
  int splits_of_piece = 1;
  int splits_of_sum = 1;  // 1, or kSpanSplits, as splits_of_piece is then
};
PrefixCut cut_prefixes(std::span<const int> splits, int heads, int processors);

// Thread blocks that go through so many pieces in as few rounds as all processors would.
int blocks_for_pieces(int pieces, int processors);

// How many of `items`, which are gone through before the pieces, each by one of `warps` of a processor, are left to
// processors that have no pieces: as many as the others need not do in another round, if there is time for them
// meanwhile, or none.
int items_beside_pieces(int items, int warps, std::span<const PrefixPiece> pieces, int processors);

}  // namespace kvasir::cuda
