#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace kvasir {

std::vector<PlannedRows> Scheduler::plan(KvCache& cache) {
  std::vector<PlannedRows> plan;
  std::int64_t budget = config_.max_batch_tokens;
  plan_running(cache, budget, plan);
  admit(cache, budget, plan);
  return plan;
}

std::int64_t Scheduler::rows_for(const Sequence& sequence, std::int64_t budget) const {
  std::int64_t rows = std::min(sequence.pending(), budget);
  if (config_.chunk_tokens > 0) rows = std::min<std::int64_t>(rows, config_.chunk_tokens);
  return rows;
}

// Two passes: whoever has one token to compute is in the middle of an answer that someone reads.
void Scheduler::plan_running(KvCache& cache, std::int64_t& budget, std::vector<PlannedRows>& plan) {
  enum class Pass : std::uint8_t { kAnswering, kCatchingUp };
  for (const Pass pass : {Pass::kAnswering, Pass::kCatchingUp}) {
    // make_room may shorten running_ from its end while we walk it from its start.
    for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
      Sequence& sequence = *running_[i];
      const bool answering = sequence.pending() == 1;
      if (answering != (pass == Pass::kAnswering)) continue;
      std::int64_t rows = rows_for(sequence, budget);
      if (!make_room(cache, i, rows)) break;
      plan.push_back({&sequence, static_cast<int>(rows)});
      budget -= rows;
    }
  }
  // A sequence planned in the first pass may have been preempted in the second.
  std::erase_if(plan, [](const PlannedRows& planned) { return !planned.sequence->lease.valid(); });
}

// For a sequence that is alone: fewer rows at a time need less room where a window lets go of what lies behind it.
// One row at a time always fits: the engine refused whatever does not.
bool Scheduler::reserve_some(KvCache& cache, Sequence& sequence, std::int64_t& rows) {
  while (!cache.reserve(sequence.lease, rows)) {
    if (rows == 1) return false;
    rows /= 2;
  }
  return true;
}

// Reserves rows for running_[index], preempting from the end until it succeeds. False: it had to go itself.
bool Scheduler::make_room(KvCache& cache, size_t index, std::int64_t& rows) {
  while (!cache.reserve(running_[index]->lease, rows)) {
    if (running_.size() == 1) {
      CHECK(reserve_some(cache, *running_[index], rows));
      return true;
    }
    const bool itself = running_.size() - 1 == index;
    preempt_last();
    if (itself) return false;
  }
  return true;
}

void Scheduler::preempt_last() {
  std::unique_ptr<Sequence> sequence = std::move(running_.back());
  running_.pop_back();
  sequence->lease = KvLease();
  ++sequence->record.preemptions;
  ++preemptions_;
  waiting_.push_front(std::move(sequence));
}

// Whether all its tokens and one block more for everybody would fit now: admitting less would only preempt it again.
// What it can share with the cache is only looked up when it would not fit without.
bool Scheduler::has_room_for(const KvCache& cache, const Sequence& sequence) const {
  const auto tokens = static_cast<std::int64_t>(sequence.tokens.size());
  const auto fits = [&](std::int64_t blocks) {
    for (size_t g = 0; g < cache.groups(); ++g) {
      if (blocks + running() > cache.pool(g).available()) return false;
    }
    return true;
  };
  const std::int64_t blocks = (tokens + cache.block_tokens()) / cache.block_tokens();
  // A shared block may be one that nobody holds: it is then no longer available, but neither has it to be found.
  return fits(blocks) ||
         fits(blocks - cache.reusable(sequence.tokens, sequence.request.tenant) / cache.block_tokens());
}

void Scheduler::admit(KvCache& cache, std::int64_t& budget, std::vector<PlannedRows>& plan) {
  while (!waiting_.empty() && budget > 0 && running() < config_.max_sequences) {
    Sequence& sequence = *waiting_.front();
    if (!running_.empty() && !has_room_for(cache, sequence)) return;
    KvCache::Opened opened = cache.open(sequence.tokens, sequence.request.tenant);
    sequence.lease = std::move(opened.lease);
    std::int64_t rows = rows_for(sequence, budget);
    const bool alone = running_.empty();
    if (!(alone ? reserve_some(cache, sequence, rows) : cache.reserve(sequence.lease, rows))) {
      CHECK(!alone);
      sequence.lease = KvLease();
      return;
    }
    if (sequence.record.steps == 0) sequence.record.reuse = opened.report;
    plan.push_back({&sequence, static_cast<int>(rows)});
    budget -= rows;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

std::vector<std::unique_ptr<Sequence>> Scheduler::take_finished() {
  std::vector<std::unique_ptr<Sequence>> finished;
  const auto take_from = [&finished](auto& queue) {
    for (auto& sequence : queue) {
      if (sequence->finish != FinishReason::kNone) finished.push_back(std::move(sequence));
    }
    std::erase(queue, nullptr);
  };
  take_from(running_);
  take_from(waiting_);
  return finished;
}

std::vector<RequestId> Scheduler::ids() const {
  std::vector<RequestId> out;
  for (const auto& sequence : running_) out.push_back(sequence->id);
  for (const auto& sequence : waiting_) out.push_back(sequence->id);
  return out;
}

Sequence* Scheduler::find(RequestId id) {
  for (auto& sequence : running_) {
    if (sequence->id == id) return sequence.get();
  }
  for (auto& sequence : waiting_) {
    if (sequence->id == id) return sequence.get();
  }
  return nullptr;
}

}  // namespace kvasir
