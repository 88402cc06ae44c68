// Who runs how many tokens in the next step.
//
// Running sequences come first, those with a single token to compute before those still catching up; then waiting
// ones, by tenant in turn (tenant_queues.h). When blocks run out somebody pauses (pause_choice.h): it lets go of its
// lease, its full blocks stay in the cache to be found again by key or go to host memory, and it waits in its old
// place. A request whose prompt another one is just computing is held back until it can share the result.
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
#include <utility>
#include <vector>

#include "engine/pause_choice.h"
#include "engine/pins.h"
#include "engine/sequence.h"
#include "engine/tenant_queues.h"
#include "kv/cache.h"

namespace kvasir {

struct SchedulerConfig {
  int max_batch_tokens = 512;
  int max_sequences = 256;
  int chunk_tokens = 0;  // a prompt's tokens in one step; 0: as many as the budget leaves
};

struct PlannedRows {
  Sequence* sequence = nullptr;
  int rows = 0;    // the next tokens of the sequence, reserved in its lease
  int drawn = -1;  // the one token is not known yet: that row of the backend's last draw
};

// What it did since it was made.
struct SchedulerCounts {
  std::int64_t recomputes = 0;
  std::int64_t swaps = 0;
  std::int64_t waits = 0;
  std::int64_t held_back = 0;  // requests that waited for another's prompt
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerConfig config) : config_(config) {}

  // Both may be missing; what is given outlives the scheduler.
  void use(HostSwap* swap, PinBoard* pins) {
    swap_ = swap;
    pins_ = pins;
  }
  void set_pace(const Pace& pace) { pace_ = pace; }
  void set_weight(std::uint32_t tenant, double weight) { waiting_.set_weight(tenant, weight); }

  Sequence* add(std::unique_ptr<Sequence> sequence);
  Sequence* add_running(std::unique_ptr<Sequence> sequence);  // has a lease
  const std::vector<PlannedRows>& plan(KvCache& cache);       // valid until the next

  // Whether the next step has the running ones only, as far as can be known: nobody waits who could join.
  bool settled() const { return waiting_.empty() || steps_ahead_ < kStepsWhileOthersWait; }
  // Room for a step of all that run and go on, as plan() would give it. False: somebody would have to make room, and
  // plan() must decide.
  bool reserve_ahead(KvCache& cache, std::span<const PlannedRows> plan);
  // The same of a step whose rows have room already.
  void serve_ahead(std::uint32_t tenant, std::int64_t rows) { waiting_.serve(tenant, static_cast<double>(rows)); }
  // Time that was spent for a tenant otherwise counts towards its turn as the tokens that it would have computed.
  void charge(std::uint32_t tenant, double seconds) { waiting_.serve(tenant, seconds / pace_.token_seconds); }
  void count_step_ahead() { ++steps_ahead_; }

  // Takes out what has finished, wherever it is, and hands it to the caller.
  std::vector<std::unique_ptr<Sequence>> take_finished();
  Sequence* find(RequestId id);
  std::vector<RequestId> ids() const;  // of all that run or wait; a branch before the one it waits for

  // Every pause since the last call, in order.
  struct PauseNews {
    RequestId id = 0;
    std::string label;
    Pause pause;
  };
  std::vector<PauseNews> take_pauses() { return std::exchange(told_, {}); }

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
  enum class Admitted : std::uint8_t { kYes, kHeldBack, kOverQuota, kNoRoom };

  std::int64_t rows_for(const KvCache& cache, const Sequence& sequence, std::int64_t budget) const;
  bool reserve_alone(KvCache& cache, Sequence& sequence, std::int64_t& rows);
  bool make_room(KvCache& cache, Sequence& sequence, std::int64_t& rows);
  void pause(KvCache& cache, const PauseChoice& choice);
  void stand_still(const PauseChoice& choice);
  void tell_pauses(const KvCache& cache);
  void plan_running(KvCache& cache, std::int64_t& budget);
  void admit(KvCache& cache, std::int64_t& budget);
  void schedule(Sequence& sequence, std::int64_t rows, std::int64_t& budget);
  Admitted admit_one(KvCache& cache, TenantQueues::Queue& queue, std::int64_t& budget);
  Admitted try_admit(KvCache& cache, Sequence& sequence, std::int64_t& budget);
  Admitted room_for(const KvCache& cache, Sequence& sequence) const;
  std::int64_t running_of(std::uint32_t tenant) const;
  Admitted take_back_room(KvCache& cache, Sequence& sequence);
  Admitted take_room_in_turn(KvCache& cache, Sequence& sequence);
  bool pause_somebody_for(KvCache& cache, std::uint32_t tenant);
  void pause_now(KvCache& cache, Sequence& sequence);
  void count_pass(const KvCache& cache, const Sequence& admitted);
  bool prompt_is_being_computed(const KvCache& cache, const Sequence& sequence) const;

  static constexpr const char* kSharesChanged =
      "tenants' shares of the cache were changed since the request came, and it has no room any more; ask again";

  // Those that were not admitted have no room, most likely; from time to time somebody looks.
  static constexpr int kStepsWhileOthersWait = 16;
  // Of plans, until a tenant that runs nothing need wait no longer for others that run several.
  static constexpr int kPlansWithoutRoom = 16;

  SchedulerConfig config_;
  HostSwap* swap_ = nullptr;
  PinBoard* pins_ = nullptr;
  Pace pace_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in the order they were admitted
  TenantQueues waiting_;
  std::uint64_t arrivals_ = 0;
  int steps_ahead_ = 0;  // since plan(); many: somebody came or left
  SchedulerCounts counts_;
  // Of this plan; kept between plans, so that a step allocates nothing.
  std::vector<PlannedRows> plan_;
  std::vector<Sequence*> answering_;
  std::vector<Sequence*> catching_up_;
  std::vector<Sequence*> without_room_;  // first of their tenants, and passed by others
  std::vector<std::pair<Sequence*, Pause>> paused_;
  std::vector<PauseNews> told_;
};

}  // namespace kvasir
