#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "layout/kv_layout.h"

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
  async_steps_ = kStepsWhileOthersWait;
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

const std::vector<ScheduledTokens>& Scheduler::schedule(KvCache& cache) {
  scheduled_.clear();
  async_steps_ = 0;
  std::int64_t budget = config_.max_batch_tokens;
  schedule_running(cache, budget);
  admit(cache, budget);
  record_preemptions(cache);
  return scheduled_;
}

bool Scheduler::reserve_ahead(KvCache& cache, std::span<const ScheduledTokens> scheduled) {
  for (const ScheduledTokens& one : scheduled) {
    if (!cache.reserve(one.sequence->lease, one.sequence->num_uncomputed_tokens() + one.rows)) return false;
  }
  for (const ScheduledTokens& one : scheduled) serve_ahead(one.sequence->request.tenant.id, one.rows);
  count_step_ahead();
  return true;
}

// A chunk ends where a tile does, and where a breakpoint's last block does, or a state is kept: that place can then
// be kept whole.
std::int64_t Scheduler::rows_for(const KvCache& cache, const Sequence& sequence, std::int64_t budget) const {
  const std::int64_t uncomputed = sequence.num_uncomputed_tokens();
  std::int64_t rows = std::min(uncomputed, budget);
  if (config_.chunk_tokens > 0) rows = std::min<std::int64_t>(rows, config_.chunk_tokens);
  const Position start = sequence.lease.length();
  if (rows < uncomputed) {
    const Position end = (start + rows) / kTileRows * kTileRows;
    if (end > start) rows = end - start;
  }
  // Rows are evicted at points of their own, which no chunk may pass.
  if (sequence.eviction) rows = std::min(rows, sequence.eviction->next_point(start) - start);
  const auto end_at = [&](Position end) {
    if (end > start && end < start + rows) rows = end - start;
  };
  for (const Breakpoint& mark : sequence.request.breakpoints) {
    end_at(blocks_for(mark.tokens, cache.block_tokens()) * cache.block_tokens());
  }
  for (const Position mark : sequence.state_marks) end_at(mark);
  return rows;
}

// Charged at once, so that the next turn is another's. A source is read in one step, and may take more than is left
// of it: nobody would ever leave enough for a long one.
void Scheduler::add_to_step(Sequence& sequence, std::int64_t rows, std::int64_t& budget) {
  rows += sequence.draft.size();
  scheduled_.push_back({&sequence, static_cast<int>(rows), sequence.draft.view()});
  rows += sequence.source_rows();
  budget = std::max<std::int64_t>(budget - rows, 0);
  waiting_.serve(sequence.request.tenant.id, static_cast<double>(rows));
}

// As many of its draft as have room without a cached block being lost for them; the answer's last token is never
// computed.
void Scheduler::make_room_for_draft(KvCache& cache, Sequence& sequence, std::int64_t budget) {
  if (sequence.draft.empty()) return;
  if (cache.has_states(sequence.lease.policy())) sequence.drafts->before = cache.fork(sequence.lease);
  const std::int64_t block = cache.block_tokens();
  const std::int64_t rows = sequence.num_uncomputed_tokens();
  const std::int64_t in_block = (block - (sequence.lease.length() + rows) % block) % block;
  const std::int64_t size = sequence.draft.size();
  const std::int64_t most = std::min({budget - rows, sequence.num_tokens_left() - 1, size});
  for (const std::int64_t length : {most, std::min(most, in_block)}) {
    sequence.draft.cut(static_cast<size_t>(std::max<std::int64_t>(length, 0)));
    if (!sequence.draft.empty() && cache.reserve_free(sequence.lease, rows + sequence.draft.size())) return;
  }
  sequence.draft.clear();
  sequence.drafts->before = KvLease();
}

// Blocks that drafters hold serve nobody's answer: they go before anybody has to.
bool Scheduler::reserve(KvCache& cache, Sequence& sequence, std::int64_t rows) {
  return cache.reserve(sequence.lease, rows) || (let_go_of_drafts() && cache.reserve(sequence.lease, rows));
}

bool Scheduler::let_go_of_drafts() {
  bool some = false;
  for (const auto& sequence : running_) some |= sequence->drafts != nullptr && sequence->drafts->let_go();
  return some;
}

// Two passes: whoever has one token to compute is in the middle of an answer that someone reads.
void Scheduler::schedule_running(KvCache& cache, std::int64_t& budget) {
  decoding_.clear();
  prefilling_.clear();
  for (const auto& sequence : running_) {
    if (sequence->waits_for_mask()) continue;
    (sequence->decodes(cache.block_tokens()) ? decoding_ : prefilling_).push_back(sequence.get());
  }
  // Prompts share what the answers leave, the least served tenant first.
  if (prefilling_.size() > 1) {
    std::ranges::stable_sort(prefilling_, {},
                             [this](const Sequence* s) { return waiting_.served(s->request.tenant.id); });
  }
  for (const auto* pass : {&decoding_, &prefilling_}) {
    for (Sequence* sequence : *pass) {
      if (budget == 0) break;
      if (!sequence->lease.valid() || sequence->finish != FinishReason::kNone) continue;  // paused for another
      // A long prompt may not keep the door shut to a tenant that was served less: half a step is left for it.
      const std::int64_t most =
          someone_less_served_waits(waiting_, sequence->request.tenant.id) ? (budget + 1) / 2 : budget;
      std::int64_t rows = rows_for(cache, *sequence, most);
      if (!make_room(cache, *sequence, rows)) continue;
      sequence->stalled = false;
      if (rows < sequence->num_uncomputed_tokens()) sequence->draft.clear();
      make_room_for_draft(cache, *sequence, budget);
      add_to_step(*sequence, rows, budget);
    }
  }
  // A sequence of the first pass may have been preempted in the second.
  std::erase_if(scheduled_, [](const ScheduledTokens& one) { return !one.sequence->lease.valid(); });
}

// For a sequence that nobody can make room for: pins yield, and fewer rows at a time need less room where a window
// lets go of what lies behind it.
bool Scheduler::reserve_alone(KvCache& cache, Sequence& sequence, std::int64_t& rows) {
  const std::int64_t wanted = rows;
  const std::uint32_t tenant = sequence.request.tenant.id;
  while (true) {
    for (rows = wanted; rows > 0; rows /= 2) {
      if (reserve(cache, sequence, rows)) return true;
    }
    if (pins_ == nullptr || !(pins_->drop_soonest(tenant) || pins_->drop_soonest(std::nullopt))) return false;
  }
}

// Reserves rows, letting others pause until it succeeds. False: it had to pause itself.
bool Scheduler::make_room(KvCache& cache, Sequence& sequence, std::int64_t& rows) {
  while (!reserve(cache, sequence, rows)) {
    const auto choice = choose_preemption({cache, running_, sequence, rows, swap_, costs_});
    if (!choice) {
      if (reserve_alone(cache, sequence, rows)) return true;
      // The engine refused what cannot fit: it fitted when it came, and tenants' shares were changed since.
      sequence.finish = FinishReason::kFailed;
      sequence.record.failure = kSharesChanged;
      return false;
    }
    if (choice->how == Preemption::How::kWait) {
      stall(*choice);
      return false;
    }
    preempt(cache, *choice);
    if (choice->who == &sequence) return false;
  }
  return true;
}

void Scheduler::stall(const PreemptionChoice& choice) {
  if (choice.who->stalled) return;
  choice.who->stalled = true;
  ++counts_.waits;
  preempted_.push_back({choice.who, {Preemption::How::kWait, 0, 0, choice.seconds}});
}

void Scheduler::preempt(KvCache& cache, const PreemptionChoice& choice) {
  Sequence* sequence = choice.who;
  Preemption::How how = choice.how;
  if (how == Preemption::How::kSwap) {
    sequence->saved = swap_->save(cache, sequence->lease);
    if (!sequence->saved) how = Preemption::How::kRecompute;  // there was no memory after all
  }
  ++(how == Preemption::How::kSwap ? counts_.swaps : counts_.recomputes);
  sequence->lease = KvLease();
  if (sequence->drafts != nullptr) {
    sequence->drafts->let_go();
    sequence->drafts->before = KvLease();
  }
  sequence->rows = nullptr;
  sequence->stalled = false;
  ++sequence->record.preemptions;
  preempted_.push_back({sequence, {how, 0, 0, choice.seconds}});
  const auto place = std::ranges::find(running_, sequence, [](const auto& s) { return s.get(); });
  waiting_.put(std::move(*place));
  running_.erase(place);
}

// Said once the others have taken what they needed: only then is it known how much is left.
void Scheduler::record_preemptions(const KvCache& cache) {
  for (auto& [sequence, preemption] : std::exchange(preempted_, {})) {
    preemption.of_tokens = static_cast<std::int64_t>(sequence->tokens.size()) - 1;
    preemption.kept_tokens = preemption.of_tokens;
    if (preemption.how == Preemption::How::kRecompute) {
      if (!sequence->lease.valid()) {
        preemption.kept_tokens = cache.reusable(sequence->tokens, sequence->open_context());
      }
      preemption.resume_seconds =
          static_cast<double>(preemption.of_tokens - preemption.kept_tokens) * costs_.token_seconds;
    }
    if (sequence->record.pauses.size() < RequestRecord::kMostPauses) sequence->record.pauses.push_back(preemption);
    preemption_events_.push_back({sequence->id, sequence->request.label, preemption});
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
    std::erase_if(preempted_, [&sequence](const auto& paused) { return paused.first == sequence.get(); });
  }
  if (!finished.empty()) async_steps_ = kStepsWhileOthersWait;
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
