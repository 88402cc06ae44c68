// The loop: schedule, run, sample, accept, commit, notify. One thread, tokens only; many requests at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/kv_storage.h"
#include "engine/draft/speculator.h"
#include "engine/engine_config.h"
#include "engine/listeners.h"
#include "engine/request.h"
#include "engine/request_checks.h"
#include "engine/schedule/cost_meter.h"
#include "engine/schedule/host_swap.h"
#include "engine/schedule/policy_registry.h"
#include "engine/schedule/prefix_pins.h"
#include "engine/schedule/scheduler.h"
#include "engine/schedule/tenant_shares.h"
#include "engine/step/mask_queue.h"
#include "engine/step/step_pipeline.h"
#include "engine/step/token_acceptor.h"
#include "kv/cache.h"
#include "model/model.h"

namespace kvasir {

class Engine {
 public:
  // Backend and models outlive the engine. `more` are models that requests may name besides the first, by their place
  // behind it. Throws Error when the memory cannot hold one block.
  Engine(Backend& backend, Model& model, EngineConfig config, std::span<const EngineModel> more = {});

  // Throws Error, and changes nothing, when the request is empty, longer than the context, or could never fit.
  RequestId submit(Request request, OnUpdate on_update);

  // The same, with one more answer for each branch; the ids in order, the request's own first.
  std::vector<RequestId> submit(Request request, OnUpdate on_update, std::vector<Branch> branches);
  void cancel(RequestId id);
  void cancel_all();

  // submit() in its parts, for EngineThread: the first two may be called from any thread.
  CheckedRequest check(Request request) const { return checks_.check(std::move(request)); }
  RequestId new_id() { return next_id_++; }
  void start(std::span<const RequestId> ids, CheckedRequest checked, OnUpdate on_update,
             std::vector<Branch> branches);

  // One thread drives an engine: a second that claims it before release() is a bug, and ends the process.
  void claim();
  void release() { claimed_ = false; }

  // Time that somebody spent on a tenant's requests elsewhere: it counts towards the tenant's turn.
  void charge(std::uint32_t tenant, double seconds) { scheduler_.charge(tenant, seconds); }

  // The longest sequence of the first model, of prompt and answer, that a tenant can ever have; from any thread.
  std::int64_t longest_of(std::uint32_t tenant) const { return checks_.longest_of(tenant); }

  // A tenant's share of the pool and of the work, from the next step on.
  void set_share(std::uint32_t tenant, TenantShare share);
  TenantShare share_of(std::uint32_t tenant) const { return shares_.of(tenant); }

  // Computes the public texts and keeps them, at the system's expense: whether a tenant has used one can then not be
  // told from how fast it is. Requires an idle engine.
  void warm_public_texts();

  // Something went wrong in the middle of a step: those that ran fail, saying why, and so do those that wait where
  // nobody ran. The engine is as before otherwise, and can go on. REQUIRES: the step ended with an exception.
  void fail_step(const std::string& why);

  bool idle() const { return scheduler_.idle(); }
  void step();  // does nothing when idle
  void run();   // steps until idle

  // A running request continued a second time from where it is: shares all its blocks, samples with its own seed.
  RequestId fork(RequestId id, std::uint64_t seed, OnUpdate on_update);

  // From the next step on; none: an empty function.
  void observe(OnLogits observer) { listeners_.on_logits = std::move(observer); }
  void on_preemption(OnPreemption listener) { listeners_.on_preemption = std::move(listener); }
  void on_finished(OnFinished listener) { listeners_.on_finished = std::move(listener); }
  void on_end(OnEnd listener) { listeners_.on_end = std::move(listener); }
  void on_step(OnStep listener) { listeners_.on_step = std::move(listener); }

  // This one guesses from the next step on, and all that it says is verified; it outlives its use. Null: those of the
  // configuration.
  void use_drafter(Drafter* drafter) { speculator_.force(drafter); }

  // From now on clients' requests to the first model that ask for the one policy run under the other, where that
  // fits.
  void replace_policy(const KvPolicy& policy, const KvPolicy& by);

  // Of what never changes: from any thread.
  const EngineConfig& config() const { return config_; }
  std::int64_t context() const { return config_.context; }
  std::int64_t cache_blocks() const { return cache_.blocks_alone(); }
  const KvStorage& storage() const { return storage_; }

  // As of the last token that listeners were notified of; valid until the next step.
  const KvCache& cache();
  const Scheduler& scheduler();
  const PolicyRegistry& policies() const { return policies_; }

  // For those who watch the cache: see KvCache. EngineWatch makes values of it.
  void watch_cache();
  void unwatch_cache();
  CacheChanges take_cache_changes();
  double now() const { return costs_.now(); }  // on the cache's clock, which stands still between steps

  const PrefixPins& pins() const { return pins_; }
  const HostSwap& swap() const { return swap_; }
  const Speculator& speculator() const { return speculator_; }
  std::int64_t num_running() const { return scheduler_.running(); }
  std::int64_t num_waiting() const { return scheduler_.waiting(); }
  const StepPipeline::Counts& step_counts() const { return pipeline_.counts(); }

 private:
  Engine(Backend& backend, std::span<const EngineModel> models, EngineConfig&& config);

  void begin_step();
  std::span<const ScheduledTokens> schedule();
  void commit(const ComputedRows& rows, const StepOutput& output);
  void notify(const StepOutput& output) const;
  void notify(const Sequence& sequence, TokenId token, const TokenLogprobs* logprobs) const;
  void finish_rows(const ComputedRows& rows);
  void finish_done();

  void branch_off(Sequence& sequence);
  Sequence& twin_of(const Sequence& sequence, Sequence::Fork& fork);
  std::shared_ptr<const ResolvedPolicy> policy_for(const CheckedRequest& checked) const;
  std::vector<Breakpoint> places_to_keep(const CheckedRequest& checked) const;
  bool goes_back(const ComputedRows& rows, const StepOutput& output);
  void keep_state(Sequence& sequence);
  void pin(Sequence& sequence, PrefixPins::Moment moment);

  EngineConfig config_;
  std::vector<ServedModel> models_;
  KvStorage storage_;
  KvCache cache_;
  PolicyRegistry policies_;
  HostSwap swap_;
  PrefixPins pins_;      // after cache_, as
  Scheduler scheduler_;  // these: their leases go first
  TenantShares shares_;
  RequestChecks checks_;
  CostMeter costs_;
  Speculator speculator_;
  EngineListeners listeners_;
  MaskQueue masks_;
  TokenAcceptor acceptor_;
  StepPipeline pipeline_;
  std::atomic<RequestId> next_id_{1};
  std::atomic<bool> claimed_ = false;
};

}  // namespace kvasir
