// Which sequences of a batch read a shared prefix together, and the work items of shared_prefix.cu.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention/attention_args.h"

namespace kvasir::cuda {

struct PrefixPlan {
  std::vector<PrefixCohort> cohorts;
  std::vector<PrefixWorkItem> items;
  std::vector<int> rows;  // of the batch
  std::int64_t sums = 0;  // partials of one row and head, in all
  // By sequence: the partials of its first token, and the chunks that they cover.
  std::vector<PrefixPartials> partials;
  std::vector<int> prefix_chunks;
};

struct PrefixRules {
  int heads_per_kv = 1;
  int most_rows = 0;                    // of a sequence that may join a cohort
  std::int64_t worth_bytes = 32 << 20;  // reads that a prefix must save to be worth another launch
  int cost = 0;                         // see PrefixPieces
  int sm_count = 1;
};

// What dequantizing a prefix costs, in sequences that read it as it is (PrefixRules::cost).
int cost_of_dequantizing(const KvLayout& layout);

// `tables`: the sequences' block tables on the device.
PrefixPlan plan_prefixes(const AttentionBatch& batch, std::span<const BlockId* const> tables,
                         const PrefixRules& rules);

// The chunks of each cohort.
std::vector<int> chunks_of_cohorts(const PrefixPlan& plan);

// How cohorts of `chunks` chunks each, for `heads` KV heads, are divided among SMs.
struct PrefixPartition {
  int chunks_of_item = 1;
  int chunks_of_partial = 1;  // 1, or kGroupChunks if chunks_of_item is
};
PrefixPartition partition_prefixes(std::span<const int> chunks, int heads, int sm_count);

// The fewest CTAs that take no more rounds for so many items than one CTA an SM.
int ctas_for_prefix_items(int items, int sm_count);

// How many of `items`, which run before the prefix items by `warps` warps an SM, are left to SMs without prefix
// items: those of the last round, if these SMs have the time meanwhile, else 0.
int items_beside_prefixes(int items, int warps, std::span<const PrefixWorkItem> prefix_items, int sm_count);

}  // namespace kvasir::cuda
