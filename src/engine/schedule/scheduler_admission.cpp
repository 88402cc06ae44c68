// Who of those that wait may run: by tenant in turn, where there is a place and room.
#include <algorithm>
#include <map>
#include <span>

#include "engine/schedule/scheduler.h"

namespace kvasir {
namespace {

// Whether what the one caches may be found by the other.
bool same_space(const Request& a, const Request& b) {
  return a.tenant.id == b.tenant.id && a.tenant.secret == b.tenant.secret && a.prefix_key == b.prefix_key &&
         a.source == b.source;
}

// What may be looked up: open() leaves the last of these tokens to be computed, and a scored one must be.
std::span<const TokenId> findable(const Sequence& sequence) {
  const std::span<const TokenId> tokens(sequence.tokens);
  return sequence.request.score_from ? tokens.first(static_cast<size_t>(*sequence.request.score_from) + 1) : tokens;
}

}  // namespace

// Whether all its tokens and one block more for everybody would fit now: admitting less would only pause it again.
// What it can share with others is only looked up when it would not fit without, and its blocks are named once.
Scheduler::Admitted Scheduler::room_for(const KvCache& cache, Sequence& sequence) const {
  const Tenant& tenant = sequence.request.tenant;
  auto tokens = static_cast<std::int64_t>(sequence.tokens.size());
  if (sequence.eviction) tokens = sequence.eviction->most_rows(tokens);
  const auto verdict = [&](std::int64_t shared, Position source) {
    const PolicyId policy = sequence.policy_id();
    const auto short_of = [&](const KvCache::Growth& growth) { return cache.shortage(policy, tenant.id, growth); };
    if (short_of({tokens + 1, shared, running(), source}) == KvCache::Shortage::kPool) return Admitted::kNoRoom;
    // To the block: what just fits its quota would otherwise wait for as long as others keep the engine busy.
    return short_of({tokens, shared, 0, source}) == KvCache::Shortage::kNone ? Admitted::kYes : Admitted::kOverQuota;
  };
  const Position source = std::ssize(sequence.request.source);
  const Admitted without = verdict(0, source);
  if (without == Admitted::kYes) return without;
  if (sequence.block_keys.empty()) sequence.block_keys = cache.block_keys(sequence.tokens, sequence.open_context());
  return verdict(cache.held_prefix(sequence.tokens, sequence.block_keys, sequence.policy_id()),
                 cache.holds_source(sequence.open_context()) ? 0 : source);
}

// What a tenant is guaranteed is its own although others were lent it: those of them who have more than they are
// guaranteed pause, the youngest first.
Scheduler::Admitted Scheduler::take_back_room(KvCache& cache, Sequence& sequence) {
  const std::uint32_t tenant = sequence.request.tenant.id;
  const std::int64_t blocks = std::ssize(sequence.tokens) / cache.block_tokens() + 1;
  const Position source = std::ssize(sequence.request.source);
  if (!cache.within_guarantee(sequence.policy_id(), tenant, blocks, source)) return Admitted::kNoRoom;
  Admitted room = Admitted::kNoRoom;
  while (room == Admitted::kNoRoom) {
    Sequence* youngest = nullptr;
    for (const auto& other : running_) {
      const std::uint32_t id = other->request.tenant.id;
      if (id == tenant || !cache.over_guarantee(id) || other->finish != FinishReason::kNone) continue;
      if (youngest == nullptr || other->arrival > youngest->arrival) youngest = other.get();
    }
    if (youngest == nullptr) break;
    preempt_now(cache, *youngest);
    room = room_for(cache, sequence);
  }
  return room;
}

// The cheaper way, whatever is scheduled of it.
void Scheduler::preempt_now(KvCache& cache, Sequence& sequence) {
  const std::uint64_t bytes = swap_ == nullptr ? 0 : swap_->bytes_for(cache, sequence.lease);
  const bool swaps = bytes > 0 && swap_->has_room(bytes);
  std::erase_if(scheduled_, [&sequence](const ScheduledTokens& one) { return one.sequence == &sequence; });
  preempt(cache, {&sequence, swaps ? Preemption::How::kSwap : Preemption::How::kRecompute, 0});
}

std::int64_t Scheduler::running_of(std::uint32_t tenant) const {
  return std::ranges::count_if(running_, [tenant](const auto& s) { return s->request.tenant.id == tenant; });
}

// The youngest of the tenant that runs the most, of those that would keep more than the asking one has then, and were
// served no less. False: there is no such tenant.
bool Scheduler::preempt_somebody_for(KvCache& cache, std::uint32_t tenant) {
  const std::int64_t own = running_of(tenant);
  std::map<std::uint32_t, std::int64_t> running;
  for (const auto& sequence : running_) ++running[sequence->request.tenant.id];
  Sequence* victim = nullptr;
  for (const auto& sequence : running_) {
    const std::uint32_t other = sequence->request.tenant.id;
    if (other == tenant || running[other] <= own + 1 || waiting_.served(other) < waiting_.served(tenant)) continue;
    if (sequence->finish != FinishReason::kNone) continue;
    const auto rank = [&](const Sequence& s) { return std::pair(running[s.request.tenant.id], s.arrival); };
    if (victim == nullptr || rank(*sequence) > rank(*victim)) victim = sequence.get();
  }
  if (victim == nullptr) return false;
  preempt_now(cache, *victim);
  return true;
}

// A tenant that runs nothing has waited for some steps: others that run several make room for it.
Scheduler::Admitted Scheduler::take_room_in_turn(KvCache& cache, Sequence& sequence) {
  const std::uint32_t tenant = sequence.request.tenant.id;
  Admitted room = Admitted::kNoRoom;
  if (++sequence.steps_without_room < kStepsWithoutRoom || running_of(tenant) > 0) return room;
  while (room == Admitted::kNoRoom && preempt_somebody_for(cache, tenant)) room = room_for(cache, sequence);
  return room;
}

// A running one, which may have rows of this step beyond that place.
void Scheduler::keep_state_at(KvCache& cache, Sequence& sequence, Position mark) {
  add_mark(sequence.state_marks, mark);
  cache.expect_another(sequence.lease, mark);
  for (ScheduledTokens& one : scheduled_) {
    if (one.sequence != &sequence) continue;
    one.rows = static_cast<int>(std::min<Position>(one.rows, mark - sequence.lease.length()));
  }
}

// Two requests with one beginning, or one source, that come together would compute it twice: the second waits, and
// shares. States are kept where the two part.
bool Scheduler::prompt_is_being_computed(KvCache& cache, const Sequence& sequence) {
  if (!cache.reuses() || !cache.shares(sequence.policy_id())) return false;
  const bool states = cache.has_states(sequence.policy_id());
  const std::int64_t step = states ? cache.state_step(sequence.policy_id()) : cache.block_tokens();
  return std::ranges::any_of(running_, [&](const std::unique_ptr<Sequence>& other) {
    if (other->finish != FinishReason::kNone || other->policy_id() != sequence.policy_id()) return false;
    if (other->num_uncomputed_tokens() <= 1 && other->source_rows() == 0) return false;
    if (!same_space(other->request, sequence.request)) return false;
    if (other->source_rows() > 0) return true;
    const std::span<const TokenId> mine(sequence.tokens.data(), sequence.tokens.size() - 1);
    const auto agreed = std::ranges::mismatch(mine, other->tokens).in1 - mine.begin();
    const Position shared = agreed / step * step;
    if (shared <= other->lease.length()) return false;
    if (states) keep_state_at(cache, *other, shared);
    return true;
  });
}

void Scheduler::mark_states(KvCache& cache, Sequence& sequence, const ReuseReport& report) const {
  sequence.state_marks.clear();
  if (!cache.reuses() || !cache.has_states(sequence.policy_id())) return;
  const Position parted = report.stop == ReuseStop::kStateBefore ? report.rows_upto : 0;
  const std::int64_t step = cache.state_step(sequence.policy_id());
  sequence.state_marks = states_to_keep({std::ssize(sequence.request.prompt), std::ssize(sequence.tokens), step,
                                         state_budget_of(sequence), sequence.request.breakpoints, parted});
  cache.expect(sequence.lease, states_at_breakpoints(sequence.request.breakpoints, step));
}

Scheduler::Admitted Scheduler::try_admit(KvCache& cache, Sequence& sequence, std::int64_t& budget) {
  if (prompt_is_being_computed(cache, sequence)) {
    if (!std::exchange(sequence.waiting_for_prefix, true)) ++counts_.waiting_for_prefix;
    return Admitted::kWaitsForPrefix;
  }
  const bool alone = running_.empty();
  if (!alone) {
    Admitted room = room_for(cache, sequence);
    if (room != Admitted::kYes && let_go_of_drafts()) room = room_for(cache, sequence);
    if (room == Admitted::kNoRoom) room = take_back_room(cache, sequence);
    if (room == Admitted::kNoRoom) room = take_room_in_turn(cache, sequence);
    // A tenant whose pins fill its quota would shut itself out for as long as others keep the engine busy.
    while (room == Admitted::kOverQuota && running_of(sequence.request.tenant.id) == 0 && pins_ != nullptr &&
           pins_->drop_soonest(sequence.request.tenant.id)) {
      room = room_for(cache, sequence);
    }
    if (room != Admitted::kYes) return room;
  }
  KvCache::Opened opened = cache.open(findable(sequence), sequence.open_context());
  sequence.lease = std::move(opened.lease);
  if (sequence.saved) swap_->restore(cache, sequence.lease, sequence.tokens, *sequence.saved);
  mark_states(cache, sequence, opened.report);
  std::int64_t rows = rows_for(cache, sequence, budget);
  bool reserved = alone ? reserve_alone(cache, sequence, rows) : cache.reserve(sequence.lease, rows);
  // Where a window lets go of what lies behind it, fewer rows at a time need less room.
  while (!reserved && !alone && rows > 1) reserved = cache.reserve(sequence.lease, rows /= 2);
  if (!reserved) {
    sequence.lease = KvLease();
    if (!alone) return Admitted::kNoRoom;
    sequence.finish = FinishReason::kFailed;
    sequence.record.failure = kSharesChanged;
    return Admitted::kWaitsForPrefix;
  }
  sequence.saved = nullptr;  // not before: whoever has to wait on keeps it
  sequence.block_keys.clear();
  sequence.passed_blocks = 0;
  sequence.steps_without_room = 0;
  if (sequence.record.steps == 0) {
    if (sequence.request.origin == Request::Origin::kClient) cache.count_query(sequence.lease, opened.report);
    sequence.record.reuse = opened.report;
    sequence.record.queue_seconds = cache.clock() - sequence.submitted;
  }
  sequence.draft.clear();
  add_to_step(sequence, rows, budget);
  return Admitted::kYes;
}

// The tenant's first request that does not wait for another's prompt.
Scheduler::Admitted Scheduler::admit_one(KvCache& cache, TenantQueues::Queue& queue, std::int64_t& budget) {
  for (size_t i = 0; i < queue.size(); ++i) {
    if (queue[i]->finish != FinishReason::kNone || queue[i]->waits_for_mask()) continue;
    const Admitted admitted = try_admit(cache, *queue[i], budget);
    if (admitted == Admitted::kWaitsForPrefix) continue;
    if (admitted == Admitted::kNoRoom) without_room_.push_back(queue[i].get());
    if (admitted == Admitted::kYes) {
      running_.push_back(std::move(queue[i]));
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
      count_pass(cache, *running_.back());
    }
    return admitted;
  }
  return Admitted::kWaitsForPrefix;
}

// Whoever is admitted behind a request without room has passed it by all that it may come to hold.
void Scheduler::count_pass(const KvCache& cache, const Sequence& admitted) {
  const std::int64_t tokens =
      std::ssize(admitted.tokens) + admitted.request.max_tokens - admitted.num_output_tokens();
  for (Sequence* behind : without_room_) behind->passed_blocks += tokens / cache.block_tokens() + 1;
}

// By tenant in turn. A request without room, or over its tenant's quota, stops its tenant; the first also everybody
// else, once what passed it would have filled the memory: those with small ones would pass it for ever.
void Scheduler::admit(KvCache& cache, std::int64_t& budget) {
  std::vector<std::uint32_t> passed;
  without_room_.clear();
  while (budget > 0) {
    const std::vector<std::uint32_t> turns = waiting_.order();
    const auto next = std::ranges::find_if(
        turns, [&](std::uint32_t tenant) { return std::ranges::find(passed, tenant) == passed.end(); });
    if (next == turns.end()) return;
    if (full()) {
      const bool due = running_of(*next) * waiting_.tenants_present() < config_.max_sequences;
      if (!due || !preempt_somebody_for(cache, *next)) return;
    }
    const Admitted admitted = admit_one(cache, waiting_.queue(*next), budget);
    const bool waited = admitted == Admitted::kNoRoom && without_room_.back()->passed_blocks >= cache.blocks_alone();
    if (waited) return;
    if (admitted != Admitted::kYes) passed.push_back(*next);
  }
}

}  // namespace kvasir
