// Who runs how many tokens in the next step.
//
// Running sequences come first, those with a single token to compute before those still prefilling; then waiting
// ones, by tenant in turn (tenant_queues.h). When blocks run out somebody is preempted (preemption.h): it lets go of
// its lease, its full blocks stay in the cache to be found again by key or go to host memory, and it waits in its old
// place. A request whose prompt another one is just computing waits until it can share the result.
//
// A request without room keeps back its own tenant's, and others' only when these have passed it often enough: until
// what passed it would have filled the whole memory once.
//
// Places to run in, and room, are shared as turns are: where all are taken, a tenant with less than its part of the
// places gets one of the tenant that has the most, and one that runs nothing does not wait for room for long while
// another runs several. Nobody loses its last one that way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/schedule/preemption.h"
#include "engine/schedule/prefix_pins.h"
#include "engine/schedule/state_marks.h"
#include "engine/schedule/tenant_queues.h"
#include "engine/sequence.h"
#include "kv/cache.h"

namespace kvasir {

struct SchedulerConfig {
  int max_batch_tokens = 512;
  int max_sequences = 256;
  int chunk_tokens = 0;  // a prompt's tokens in one step; 0: as many as the budget leaves
  int state_budget = 4;  // states of recurrent layers that a request leaves behind: see states_to_keep()
};

// Rows that a step computes for a sequence: its next tokens, reserved in its lease, and behind the last of them a
// draft, if there is one. Of a draft that branches, rows lie in its tokens' order, and have the positions of their
// paths.
struct ScheduledTokens {
  Sequence* sequence = nullptr;
  int rows = 0;       // those of the draft included
  DraftView draft{};  // the sequence's; only where all its own tokens are computed with it
  int sampled = -1;   // the one token is not known yet: that row of the backend's last draw, of a step in flight

  int own_rows() const { return rows - static_cast<int>(draft.size()); }
  // Whether its next token can be sampled once these are computed.
  bool completes() const { return sampled >= 0 || own_rows() == sequence->num_uncomputed_tokens(); }
};

// What it did since it was made.
struct SchedulerCounts {
  std::int64_t recomputes = 0;
  std::int64_t swaps = 0;
  std::int64_t waits = 0;
  std::int64_t waiting_for_prefix = 0;  // requests that waited for another's prompt
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerConfig config) : config_(config) {}

  // Both may be missing; what is given outlives the scheduler.
  void use(HostSwap* swap, PrefixPins* pins) {
    swap_ = swap;
    pins_ = pins;
  }
  const SchedulerConfig& config() const { return config_; }
  int state_budget_of(const Sequence& sequence) const {
    return sequence.request.state_budget.value_or(config_.state_budget);
  }
  void set_costs(const CostModel& costs) { costs_ = costs; }
  void set_weight(std::uint32_t tenant, double weight) { waiting_.set_weight(tenant, weight); }

  Sequence* add(std::unique_ptr<Sequence> sequence);
  Sequence* add_running(std::unique_ptr<Sequence> sequence);     // has a lease
  const std::vector<ScheduledTokens>& schedule(KvCache& cache);  // the next step; valid until the next call

  // Whether the next step has the running ones only, as far as can be known: nobody waits who could join.
  bool no_admission_pending() const { return waiting_.empty() || async_steps_ < kStepsWhileOthersWait; }
  // Room for a step of all that run and go on, as schedule() would give it, behind a step in flight that computes the
  // last known token of each. False: somebody would have to make room, and schedule() must decide.
  bool reserve_ahead(KvCache& cache, std::span<const ScheduledTokens> scheduled);
  // The same of a step whose rows have room already.
  void serve_ahead(std::uint32_t tenant, std::int64_t rows) { waiting_.serve(tenant, static_cast<double>(rows)); }
  // Time that was spent for a tenant otherwise counts towards its turn as the tokens that it would have computed.
  void charge(std::uint32_t tenant, double seconds) { waiting_.serve(tenant, seconds / costs_.token_seconds); }
  void count_step_ahead() { ++async_steps_; }

  // Takes out what has finished, wherever it is, and hands it to the caller.
  std::vector<std::unique_ptr<Sequence>> take_finished();
  Sequence* find(RequestId id);
  std::vector<RequestId> ids() const;  // of all that run or wait; a branch before the one it waits for

  // Every preemption since the last call, in order.
  struct PreemptionEvent {
    RequestId id = 0;
    std::string label;
    Preemption preemption;
  };
  std::vector<PreemptionEvent> take_preemptions() { return std::exchange(preemption_events_, {}); }

  template <class Visit>
  void each(Visit visit) const {  // every sequence: those that run, then those that wait
    for (const auto& sequence : running_) visit(*sequence);
    waiting_.each([&](const auto& queue) {
      for (const auto& sequence : queue) visit(*sequence);
    });
  }

  template <class Visit>
  void each_to_change(Visit visit) {
    for (auto& sequence : running_) visit(*sequence);
    waiting_.each([&](auto& queue) {
      for (auto& sequence : queue) visit(*sequence);
    });
  }

  bool idle() const { return running_.empty() && waiting_.empty(); }
  bool full() const { return running() >= config_.max_sequences; }
  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t waiting() const { return waiting_.size(); }
  std::int64_t preemptions() const { return counts_.recomputes + counts_.swaps; }
  const SchedulerCounts& counts() const { return counts_; }

 private:
  enum class Admitted : std::uint8_t { kYes, kWaitsForPrefix, kOverQuota, kNoRoom };

  std::int64_t rows_for(const KvCache& cache, const Sequence& sequence, std::int64_t budget) const;
  bool reserve_alone(KvCache& cache, Sequence& sequence, std::int64_t& rows);
  bool make_room(KvCache& cache, Sequence& sequence, std::int64_t& rows);
  void preempt(KvCache& cache, const PreemptionChoice& choice);
  void stall(const PreemptionChoice& choice);
  void record_preemptions(const KvCache& cache);
  void schedule_running(KvCache& cache, std::int64_t& budget);
  static void make_room_for_draft(KvCache& cache, Sequence& sequence, std::int64_t budget);
  bool reserve(KvCache& cache, Sequence& sequence, std::int64_t rows);
  bool let_go_of_drafts();
  void admit(KvCache& cache, std::int64_t& budget);
  void add_to_step(Sequence& sequence, std::int64_t rows, std::int64_t& budget);
  Admitted admit_one(KvCache& cache, TenantQueues::Queue& queue, std::int64_t& budget);
  Admitted try_admit(KvCache& cache, Sequence& sequence, std::int64_t& budget);
  Admitted room_for(const KvCache& cache, Sequence& sequence) const;
  std::int64_t running_of(std::uint32_t tenant) const;
  Admitted take_back_room(KvCache& cache, Sequence& sequence);
  Admitted take_room_in_turn(KvCache& cache, Sequence& sequence);
  bool preempt_somebody_for(KvCache& cache, std::uint32_t tenant);
  void preempt_now(KvCache& cache, Sequence& sequence);
  void count_pass(const KvCache& cache, const Sequence& admitted);
  bool prompt_is_being_computed(KvCache& cache, const Sequence& sequence);
  void keep_state_at(KvCache& cache, Sequence& sequence, Position mark);
  void mark_states(KvCache& cache, Sequence& sequence, const ReuseReport& report) const;

  static constexpr const char* kSharesChanged =
      "tenants' shares of the cache were changed since the request came, and it has no room any more; ask again";

  // Those that were not admitted have no room, most likely; from time to time somebody looks.
  static constexpr int kStepsWhileOthersWait = 16;
  // Of steps, until a tenant that runs nothing need wait no longer for others that run several.
  static constexpr int kStepsWithoutRoom = 16;

  SchedulerConfig config_;
  HostSwap* swap_ = nullptr;
  PrefixPins* pins_ = nullptr;
  CostModel costs_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in the order they were admitted
  TenantQueues waiting_;
  std::uint64_t arrivals_ = 0;
  int async_steps_ = 0;  // since schedule(); many: somebody came or left
  SchedulerCounts counts_;
  // Of this step; kept between steps, so that one allocates nothing.
  std::vector<ScheduledTokens> scheduled_;
  std::vector<Sequence*> decoding_;
  std::vector<Sequence*> prefilling_;
  std::vector<Sequence*> without_room_;  // first of their tenants, and passed by others
  std::vector<std::pair<Sequence*, Preemption>> preempted_;
  std::vector<PreemptionEvent> preemption_events_;
};

}  // namespace kvasir
