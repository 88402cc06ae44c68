// Attention: a batch cut into tiles and splits, and the kernels that go over them.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <optional>

#include "backend/backend.h"
#include "backend/cuda/attention_plans.h"
#include "backend/cuda/device_memory.h"

namespace kvasir::cuda {

// Heads longer than this are an Error on this device.
inline constexpr int kMostHeadDim = 256;
inline constexpr int kMostPlainHeadDim = 512;  // where K or V is float32

// How a kernel that finishes rows is launched. 0 blocks of a row: none is.
struct RowLaunch {
  int blocks_of_row = 0;
  bool draws_rows = false;
  bool begins_early = false;

  friend bool operator==(const RowLaunch&, const RowLaunch&) = default;
};

// What the kernels of an attention call are given beyond the call itself: what is there and how much of it. Two calls
// of one shape launch the same kernels with the same parameters.
struct AttentionShape {
  std::array<const void*, 19> at{};
  int tiles = 0;
  int items = 0;
  int spans = 0;
  bool in_many_spans = false;
  RowLaunch rows;
  int pieces = 0;  // of prefixes
  int wide = 0;    // blocks of prefixes that are widened

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

class CudaAttention {
 public:
  // On the device in use, or so many of its processors.
  CudaAttention(cudaStream_t stream, Staging& staging, SequenceTables& tables, int processors = 0);

  // `also`: for out as well. REQUIRES: none of it, or fills_rows().
  void attend(const AttentionBatch& batch, Matrix out, RowsRoom also = {});
  // Whether attend() writes all of out, and can leave it for a product too.
  static bool fills_rows(const AttentionBatch& batch, Matrix out);
  void watch(const AttentionBatch& batch, const AttentionWatch& watch);
  // What attend() would do, with the memory that there is now; what it needs is in staging memory then. None where it
  // would do more than batches of single tokens need.
  std::optional<AttentionShape> shape(const AttentionBatch& batch);
  // Plans of an earlier batch lead nowhere.
  void forget() { plans_.forget(); }

 private:
  void attend_plainly(const AttentionBatch& batch, Matrix out);
  void attend_to_tiles(const AttentionBatch& batch, Matrix out, RowsRoom also);
  // As kernels want them that do not take them as they come.
  void prepare(const AttentionBatch& batch, AttentionArgs& args);
  void attend_to_groups(const AttentionPlan& plan, AttentionArgs args);
  void attend_to_rows(const AttentionPlan& plan, const RowLaunch& launch, AttentionArgs& args);
  int* zero();
  void attend_to_prefixes(const AttentionPlan& plan, AttentionArgs& args);
  void leave_items_beside_pieces(const AttentionPlan& plan, AttentionArgs& args) const;
  RowLaunch row_launch(const AttentionPlan& plan, const KvView& view) const;
  bool folds_spans(const AttentionArgs& args) const;
  void attend_to_items(const AttentionArgs& args);
  void merge(const AttentionPlan& plan, const AttentionArgs& args);
  // In device memory, prepared: halves or floats of all rows.
  const float* float_queries(const AttentionBatch& batch);

  cudaStream_t stream_;
  SequenceTables& tables_;
  AttentionDevice device_;
  AttentionPlans plans_;
  DeviceMemory halves_, floats_, scales_, part_out_, part_states_, shares_;
  DeviceMemory begun_out_, begun_states_;
  WideRoom wide_, wide_prefixes_;
  DeviceMemory taken_;  // 0 between two launches
};

}  // namespace kvasir::cuda
