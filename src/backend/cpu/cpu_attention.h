// Attention over the paged cache: computing a plan's units, and merging what they give.
#pragma once

#include <span>

#include "backend/backend.h"
#include "backend/buffer.h"
#include "backend/cpu/attention_plan.h"
#include "backend/cpu/kernels.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

class Attention {
 public:
  Attention(Isa isa, ThreadPool& pool)
      : kernels_(attention_kernels(isa)), packed_(packed_attention_kernels(isa)), pool_(pool) {}

  void run(const AttentionBatch& batch, Matrix out);
  void watch(const AttentionBatch& batch, const AttentionWatch& watch);  // attention_watch.cpp

 private:
  // Where things lie in a thread's scratch memory, in bytes.
  struct Room {
    size_t scores, keys, values, weights, q, part, sums, states, total;
    int stride;  // of output rows
  };

  static Room room_for(const AttentionBatch& batch);
  std::byte* base_of(int thread, const Room& room) const;
  static AttendScratch scratch_of(std::byte* base, const Room& room);
  static AttendTask task_of(const AttentionBatch& batch, std::span<const QueryTile> tiles, int kv_head, float* q);
  AttendTask task_of(const AttentionBatch& batch, std::span<const int> tiles, int kv_head, float* q) const;
  void watch_tile(const AttentionBatch& batch, const AttentionWatch& watch, const QueryTile& tile, int kv_head,
                  std::byte* base) const;
  void split(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows out) const;
  void weigh(const AttendTask& task, std::int64_t split, const AttendScratch& scratch, PartialRows out) const;
  void run_whole(const AttentionBatch& batch, const Room& room, Matrix out);
  void run_units(const AttentionBatch& batch, const Room& room, Matrix out);
  PartialRows part_at(const AttentionBatch& batch, int tile, int kv_head, int split, int stride) const;
  void compute_unit(const AttentionBatch& batch, const SplitUnit& unit, int kv_head, std::byte* base,
                    const Room& room) const;
  void merge_tile(const AttentionBatch& batch, int tile, int kv_head, int stride, Matrix out) const;
  // `sums` without sums: the tile sees nothing.
  void finish(const AttentionBatch& batch, const QueryTile& tile, int kv_head, PartialRows sums, Matrix out) const;
  SoftmaxState finish_row(const AttentionBatch& batch, int head, PartialRows row, float* to) const;

  AttentionKernels kernels_;
  AttentionKernels packed_;  // score and mix of integer formats
  ThreadPool& pool_;
  AttentionPlan plan_;
  Buffer scratch_;     // [threads] of Room
  Buffer partials_;    // run_units: the sums of every tile, KV head and split
  int part_rows_ = 0;  // run_units: rows of the largest tile
};

}  // namespace kvasir::cpu
