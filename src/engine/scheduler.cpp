#include "engine/scheduler.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace kvasir {
namespace {

constexpr std::int64_t kTileRows = 16;  // kernels work on so many rows at once: a chunk ends where a tile does

// Whether someone waits whose tenant was served no more than this one.
bool someone_less_served_waits(const TenantQueues& waiting, std::uint32_t tenant) {
  const std::vector<std::uint32_t> order = waiting.order();
  return !order.empty() && order.front() != tenant && waiting.served(order.front()) <= waiting.served(tenant);
}

}  // namespace

Sequence* Scheduler::add(std::unique_ptr<Sequence> sequence) {
  Sequence* added = sequence.get();
  added->arrival = ++arrivals_;
  steps_ahead_ = kStepsWhileOthersWait;
  waiting_.put(std::move(sequence));
  waiting_.arrive(added->request.tenant.id);
  return added;
}

Sequence* Scheduler::add_running(std::unique_ptr<Sequence> sequence) {
  CHECK(sequence->lease.valid());
  Sequence* added = sequence.get();
  added->arrival = ++arrivals_;
  running_.push_back(std::move(sequence));
  waiting_.arrive(added->request.tenant.id);
  return added;
}

const std::vector<PlannedRows>& Scheduler::plan(KvCache& cache) {
  plan_.clear();
  steps_ahead_ = 0;
  std::int64_t budget = config_.max_batch_tokens;
  plan_running(cache, budget);
  admit(cache, budget);
  tell_pauses(cache);
  return plan_;
}

bool Scheduler::reserve_ahead(KvCache& cache, std::span<const PlannedRows> plan) {
  for (const PlannedRows& planned : plan) {
    if (!cache.reserve(planned.sequence->lease, planned.rows)) return false;
  }
  for (const PlannedRows& planned : plan) serve_ahead(planned.sequence->request.tenant.id, planned.rows);
  count_step_ahead();
  return true;
}

// A chunk ends where a tile does, and where a breakpoint's last block does: that place can then be kept whole.
std::int64_t Scheduler::rows_for(const KvCache& cache, const Sequence& sequence, std::int64_t budget) const {
  const std::int64_t pending = sequence.pending();
  std::int64_t rows = std::min(pending, budget);
  if (config_.chunk_tokens > 0) rows = std::min<std::int64_t>(rows, config_.chunk_tokens);
  const Position start = sequence.lease.length();
  if (rows < pending) {
    const Position end = (start + rows) / kTileRows * kTileRows;
    if (end > start) rows = end - start;
  }
  // Rows are evicted at points of their own, which no chunk may pass.
  if (sequence.eviction) rows = std::min(rows, sequence.eviction->next_point(start) - start);
  const std::int64_t size = cache.block_tokens();
  for (const Breakpoint& mark : sequence.request.breakpoints) {
    const Position end = (mark.tokens + size - 1) / size * size;
    if (end > start && end < start + rows) rows = end - start;
  }
  return rows;
}

// Charged at once, so that the next turn is another's.
void Scheduler::schedule(Sequence& sequence, std::int64_t rows, std::int64_t& budget) {
  plan_.push_back({&sequence, static_cast<int>(rows)});
  budget -= rows;
  waiting_.serve(sequence.request.tenant.id, static_cast<double>(rows));
}

// Two passes: whoever has one token to compute is in the middle of an answer that someone reads.
void Scheduler::plan_running(KvCache& cache, std::int64_t& budget) {
  answering_.clear();
  catching_up_.clear();
  for (const auto& sequence : running_) {
    if (sequence->waits_for_mask()) continue;
    (sequence->pending() == 1 ? answering_ : catching_up_).push_back(sequence.get());
  }
  // Prompts share what the answers leave, the least served tenant first.
  if (catching_up_.size() > 1) {
    std::ranges::stable_sort(catching_up_, {},
                             [this](const Sequence* s) { return waiting_.served(s->request.tenant.id); });
  }
  for (const auto* pass : {&answering_, &catching_up_}) {
    for (Sequence* sequence : *pass) {
      if (budget == 0) break;
      if (!sequence->lease.valid() || sequence->finish != FinishReason::kNone) continue;  // paused for another
      // A long prompt may not keep the door shut to a tenant that was served less: half a step is left for it.
      const std::int64_t most =
          someone_less_served_waits(waiting_, sequence->request.tenant.id) ? (budget + 1) / 2 : budget;
      std::int64_t rows = rows_for(cache, *sequence, most);
      if (!make_room(cache, *sequence, rows)) continue;
      sequence->standing_still = false;
      schedule(*sequence, rows, budget);
    }
  }
  // A sequence planned in the first pass may have been paused in the second.
  std::erase_if(plan_, [](const PlannedRows& planned) { return !planned.sequence->lease.valid(); });
}

// For a sequence that nobody can make room for: pins yield, and fewer rows at a time need less room where a window
// lets go of what lies behind it.
bool Scheduler::reserve_alone(KvCache& cache, Sequence& sequence, std::int64_t& rows) {
  const std::int64_t wanted = rows;
  const std::uint32_t tenant = sequence.request.tenant.id;
  while (true) {
    for (rows = wanted; rows > 0; rows /= 2) {
      if (cache.reserve(sequence.lease, rows)) return true;
    }
    if (pins_ == nullptr || !(pins_->drop_soonest(tenant) || pins_->drop_soonest(std::nullopt))) return false;
  }
}

// Reserves rows, letting others pause until it succeeds. False: it had to pause itself.
bool Scheduler::make_room(KvCache& cache, Sequence& sequence, std::int64_t& rows) {
  while (!cache.reserve(sequence.lease, rows)) {
    const auto choice = choose_pause({cache, running_, sequence, rows, swap_, pace_});
    if (!choice) {
      if (reserve_alone(cache, sequence, rows)) return true;
      // The engine refused what cannot fit: it fitted when it came, and tenants' shares were changed since.
      sequence.finish = FinishReason::kFailed;
      sequence.record.failure = kSharesChanged;
      return false;
    }
    if (choice->how == Pause::How::kWait) {
      stand_still(*choice);
      return false;
    }
    pause(cache, *choice);
    if (choice->who == &sequence) return false;
  }
  return true;
}

void Scheduler::stand_still(const PauseChoice& choice) {
  if (choice.who->standing_still) return;
  choice.who->standing_still = true;
  ++counts_.waits;
  paused_.push_back({choice.who, {Pause::How::kWait, 0, 0, choice.seconds}});
}

void Scheduler::pause(KvCache& cache, const PauseChoice& choice) {
  Sequence* sequence = choice.who;
  Pause::How how = choice.how;
  if (how == Pause::How::kSwap) {
    sequence->saved = swap_->save(cache, sequence->lease);
    if (!sequence->saved) how = Pause::How::kRecompute;  // there was no memory after all
  }
  ++(how == Pause::How::kSwap ? counts_.swaps : counts_.recomputes);
  sequence->lease = KvLease();
  sequence->rows = nullptr;
  sequence->standing_still = false;
  ++sequence->record.preemptions;
  paused_.push_back({sequence, {how, 0, 0, choice.seconds}});
  const auto place = std::ranges::find(running_, sequence, [](const auto& s) { return s.get(); });
  waiting_.put(std::move(*place));
  running_.erase(place);
}

// Said once the others have taken what they needed: only then is it known how much is left.
void Scheduler::tell_pauses(const KvCache& cache) {
  for (auto& [sequence, pause] : std::exchange(paused_, {})) {
    pause.of_tokens = static_cast<std::int64_t>(sequence->tokens.size()) - 1;
    pause.kept_tokens = pause.of_tokens;
    if (pause.how == Pause::How::kRecompute) {
      if (!sequence->lease.valid()) {
        pause.kept_tokens = cache.reusable(sequence->tokens, sequence->request.tenant, sequence->policy_id());
      }
      pause.resume_seconds = static_cast<double>(pause.of_tokens - pause.kept_tokens) * pace_.token_seconds;
    }
    if (sequence->record.pauses.size() < RequestRecord::kMostPauses) sequence->record.pauses.push_back(pause);
    told_.push_back({sequence->id, sequence->request.label, pause});
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
  waiting_.each(take_from);
  for (const auto& sequence : finished) {
    waiting_.leave(sequence->request.tenant.id);
    std::erase_if(paused_, [&sequence](const auto& paused) { return paused.first == sequence.get(); });
  }
  if (!finished.empty()) steps_ahead_ = kStepsWhileOthersWait;
  return finished;
}

std::vector<RequestId> Scheduler::ids() const {
  std::vector<RequestId> out;
  each([&out](const Sequence& sequence) {
    for (const Sequence::Fork& fork : sequence.forks) out.push_back(fork.id);
    out.push_back(sequence.id);
  });
  return out;
}

Sequence* Scheduler::find(RequestId id) {
  Sequence* found = nullptr;
  const auto look_in = [&](auto& queue) {
    for (auto& sequence : queue) {
      if (sequence->id == id) found = sequence.get();
    }
  };
  look_in(running_);
  if (found == nullptr) waiting_.each(look_in);
  return found;
}

}  // namespace kvasir
