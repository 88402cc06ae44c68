// Attention on the device: plans a batch (plan_cache.h) and runs the kernels that README.md's table chooses.
#pragma once

#include <cuda_runtime.h>

#include <optional>

#include "backend/backend.h"
#include "backend/cuda/attention/plan_cache.h"
#include "backend/cuda/runtime/device_memory.h"

namespace kvasir::cuda {

// Whether only decode/any_rule.cu computes it: whatever is more than a scale, a causal mask and a window over usual
// K and V.
bool needs_any_rule(const AttentionBatch& batch);

// How a whole-row kernel is launched. No CTAs per row: none is.
struct WholeRowLaunch {
  int ctas_per_row = 0;
  bool pops_last_rows = false;
  bool loads_before_pdl_wait = false;

  friend bool operator==(const WholeRowLaunch&, const WholeRowLaunch&) = default;
};

// The arguments of the shared-prefix kernels beyond the call itself, all empty without a shared prefix.
struct PrefixShape {
  const PrefixCohort* cohorts = nullptr;
  const PrefixWorkItem* items = nullptr;
  const int* rows = nullptr;
  int item_count = 0;
  const std::byte* out = nullptr;
  const std::byte* states = nullptr;
  const DequantBlock* dequant_blocks = nullptr;
  int dequant_block_count = 0;
  const std::byte* dequantized = nullptr;
  const std::byte* dequantized_scales = nullptr;

  friend bool operator==(const PrefixShape&, const PrefixShape&) = default;
};

// The arguments of an attention call's kernels beyond the call itself: addresses and counts. Calls of equal shape
// launch the same kernels with the same parameters, so it is part of a CUDA graph's key (GraphKey). A member that is
// forgotten here lets a stale graph run.
struct AttentionShape {
  const SequenceView* sequences = nullptr;
  const std::byte* halves = nullptr;
  const std::byte* floats = nullptr;
  const std::byte* scales = nullptr;
  const std::byte* partial_out = nullptr;
  const std::byte* partial_states = nullptr;
  const std::byte* ticket_counter = nullptr;
  const AttentionTile* tiles = nullptr;
  const WorkItem* items = nullptr;
  const ChunkGroup* chunk_groups = nullptr;
  const WorkItem* whole_rows = nullptr;
  int tile_count = 0;
  int item_count = 0;
  int chunk_group_count = 0;
  int chunk_slots = 0;  // of any_rule.cu
  bool has_many_groups = false;
  WholeRowLaunch whole_row_launch;
  PrefixShape prefix;

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

class CudaAttention {
 public:
  // On the device in use, by all of its SMs or `sm_count` of them.
  CudaAttention(cudaStream_t stream, Staging& staging, SequenceTables& tables, int sm_count = 0);

  // `also` gets out too. REQUIRES: it is empty, or fills_rows().
  void attend(const AttentionBatch& batch, Matrix out, GemmInput also = {});
  // Whether attend() writes all of out, and can write it into a GEMM's input, too.
  static bool fills_rows(const AttentionBatch& batch, Matrix out);
  void watch(const AttentionBatch& batch, const AttentionWatch& watch);
  // The shape of attend(), with the workspaces as they are now; uploads the plan. None if attend() would need more
  // than one pass or a prefill kernel.
  std::optional<AttentionShape> shape(const AttentionBatch& batch);
  // Ends a batch, whose plans are invalid then.
  void forget() { plans_.forget(); }

 private:
  RuleAttention rule_attention(const AttentionBatch& batch);
  void attend_any_rule(const AttentionBatch& batch, Matrix out);
  void attend_tiles(const AttentionBatch& batch, Matrix out, GemmInput also);
  AttentionArgs args_for(const AttentionBatch& batch, const AttentionPlan& plan);
  // Casts queries, for kernels that do not take float32.
  void prepare(const AttentionBatch& batch, AttentionArgs& args);
  void attend_prefill_tiles(const AttentionPlan& plan, AttentionArgs args);
  void attend_whole_rows(const AttentionPlan& plan, const WholeRowLaunch& launch, AttentionArgs& args);
  void attend_by_partials(const AttentionPlan& plan, AttentionArgs& args);
  void attend_prefixes(const AttentionPlan& plan, AttentionArgs& args);
  void reserve_items_beside_prefixes(const AttentionPlan& plan, AttentionArgs& args) const;
  WholeRowLaunch whole_row_launch(const AttentionPlan& plan, const KvView& view) const;
  PrefixShape prefix_shape(const AttentionPlan& plan) const;
  bool merges_chunk_groups(const AttentionArgs& args) const;
  void attend_items(const AttentionArgs& args);
  void merge(const AttentionPlan& plan, const AttentionArgs& args);
  const float* rounded_queries(const AttentionBatch& batch);
  int* ticket_counter();

  cudaStream_t stream_;
  SequenceTables& tables_;
  AttentionDevice device_;
  PlanCache plans_;
  DeviceMemory halves_, floats_, scales_, partial_out_, partial_states_, shares_;
  DeviceMemory prefix_out_, prefix_states_;
  DequantWorkspace dequant_prefill_, dequant_prefixes_;
  DeviceMemory ticket_counter_;  // an int that is 0 between launches
};

}  // namespace kvasir::cuda
