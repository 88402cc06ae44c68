// Attention over the paged cache: cutting a ragged batch into query tiles and splits, and sharing them out.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/buffer.h"
#include "backend/cpu/kernels.h"
#include "base/thread_pool.h"

namespace kvasir::cpu {

class Attention {
 public:
  Attention(Isa isa, ThreadPool& pool) : kernels_(attention_kernels(isa)), pool_(pool) {}

  void run(const AttentionBatch& batch, Matrix out);

 private:
  // A tile of queries of one sequence and one KV head.
  struct Item {
    int sequence = 0;
    int kv_head = 0;
    int first_token = 0;
    int tokens = 0;
  };
  // Where things lie in a thread's scratch memory, in bytes.
  struct Room {
    size_t scores, keys, values, q, part, sums, states, total;
    int stride;  // of output rows
  };

  void list_items(const AttentionBatch& batch);
  static Room room_for(const AttentionBatch& batch);
  AttendTask task_of(const AttentionBatch& batch, const Item& item, float* q) const;
  void run_whole(const AttentionBatch& batch, const Room& room, Matrix out);
  void run_spread(const AttentionBatch& batch, const Room& room, Matrix out);
  void finish(const AttentionBatch& batch, const Item& item, PartialRows sums, Matrix out) const;
  bool sees(const AttendTask& task, std::int64_t split) const;
  static std::int64_t splits_of(const AttendTask& task);

  AttentionKernels kernels_;
  ThreadPool& pool_;
  std::vector<Item> items_;  // kept between calls, to allocate nothing in a steady state
  Buffer scratch_;           // [threads] of Room
  Buffer partials_;          // run_spread: every item's sums for every split
};

}  // namespace kvasir::cpu
