// Who runs how many tokens in the next step.
//
// Running sequences come first, those with a single token to compute before those still catching up; then waiting
// ones in the order they came. When blocks run out the youngest running sequence is preempted: it lets go of its
// lease, its full blocks stay in the cache to be found again by key, and it waits at the head of the queue. The
// oldest is never preempted, so every step moves someone towards the end.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/sequence.h"
#include "kv/cache.h"

namespace kvasir {

struct SchedulerConfig {
  int max_batch_tokens = 512;
  int max_sequences = 256;
  int chunk_tokens = 0;  // a prompt's tokens in one step; 0: as many as the budget leaves
};

struct PlannedRows {
  Sequence* sequence = nullptr;
  int rows = 0;  // the next tokens of the sequence, reserved in its lease
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerConfig config) : config_(config) {}

  void add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }
  void add_running(std::unique_ptr<Sequence> sequence) { running_.push_back(std::move(sequence)); }  // has a lease
  std::vector<PlannedRows> plan(KvCache& cache);

  // Takes out what has finished, wherever it is, and hands it to the caller.
  std::vector<std::unique_ptr<Sequence>> take_finished();
  Sequence* find(RequestId id);
  std::vector<RequestId> ids() const;  // of all that run or wait

  bool idle() const { return running_.empty() && waiting_.empty(); }
  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  std::int64_t preemptions() const { return preemptions_; }

 private:
  std::int64_t rows_for(const Sequence& sequence, std::int64_t budget) const;
  static bool reserve_some(KvCache& cache, Sequence& sequence, std::int64_t& rows);
  bool make_room(KvCache& cache, size_t index, std::int64_t& rows);
  void preempt_last();
  void plan_running(KvCache& cache, std::int64_t& budget, std::vector<PlannedRows>& plan);
  void admit(KvCache& cache, std::int64_t& budget, std::vector<PlannedRows>& plan);
  bool has_room_for(const KvCache& cache, const Sequence& sequence) const;

  SchedulerConfig config_;
  std::vector<std::unique_ptr<Sequence>> running_;  // oldest first
  std::deque<std::unique_ptr<Sequence>> waiting_;   // next first
  std::int64_t preemptions_ = 0;
};

}  // namespace kvasir
