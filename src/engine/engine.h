// The loop: plan, move, run, sample, commit. One thread, tokens only; many requests at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/kv_storage.h"
#include "engine/flight.h"
#include "engine/formation.h"
#include "engine/host_swap.h"
#include "engine/mask_worker.h"
#include "engine/pins.h"
#include "engine/policies.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "kv/cache.h"
#include "layout/kv_policy.h"
#include "model/model.h"

namespace kvasir {

struct EngineConfig {
  enum class Mode : std::uint8_t {
    kCached,
    kRecompute,  // the whole sequence again for every token: the baseline that the cache is measured against
  };

  enum class OtherPolicies : std::uint8_t { kListed, kAny };

  KvPolicy kv;                                    // of requests that name none
  std::vector<KvPolicy> kv_also;                  // others that requests may ask for …
  OtherPolicies others = OtherPolicies::kListed;  // … or any
  std::vector<KvPolicy> kv_of_house;              // that no request may ask for: memory is laid out for them as well
  int block_tokens = kDefaultBlockTokens;
  std::int64_t context = 0;    // the longest sequence; 0: what the model was trained for
  std::uint64_t kv_bytes = 0;  // for all blocks; 0: four of the longest sequences, at most half the
                               // memory, or nine tenths of what weights left of a device
  std::string eviction = "lru";
  CacheConfig::Reuse reuse = CacheConfig::Reuse::kOn;
  Mode mode = Mode::kCached;
  SchedulerConfig scheduler;                // max_batch_tokens is bounded by the model's max_rows
  std::optional<std::uint64_t> swap_bytes;  // of host memory for paused requests; nullopt: as much as kv_bytes, at
                                            // most an eighth of the memory
  double pinned_share = 0.5;                // of the blocks, and of a tenant's most: breakpoints keep no more
  std::vector<std::vector<TokenId>> public_texts;  // beginnings that all tenants share; see warm_public_texts()
  std::optional<Pace> pace;                        // nullopt: measured
  std::uint64_t shuffle_blocks = 0;  // a seed: hand blocks out in another order. No answer may depend on it.
};

class Engine {
 public:
  // Backend and model outlive the engine. Throws Error when the memory cannot hold one block.
  Engine(Backend& backend, Model& model, EngineConfig config);
  ~Engine();

  // Throws Error, and changes nothing, when the request is empty, longer than the context, or could never fit.
  RequestId submit(Request request, OnUpdate on_update);

  // The same, with one more answer for each branch; the ids in order, the request's own first.
  std::vector<RequestId> submit(Request request, OnUpdate on_update, std::vector<Branch> branches);
  void cancel(RequestId id);
  void cancel_all();

  // submit() in its parts, for EngineThread: the first two may be called from any thread.
  void check(const Request& request) const;
  RequestId new_id() { return next_id_++; }
  void start(std::span<const RequestId> ids, Request request, OnUpdate on_update, std::vector<Branch> branches);

  // One thread drives an engine: a second that claims it before release() is a bug, and ends the process.
  void claim();
  void release() { claimed_ = false; }

  // Time that somebody spent on a tenant's requests elsewhere: it counts towards the tenant's turn.
  void charge(std::uint32_t tenant, double seconds) { scheduler_.charge(tenant, seconds); }

  // The longest sequence, of prompt and answer, that a tenant can ever have; from any thread.
  std::int64_t longest_of(std::uint32_t tenant) const;

  // A tenant's share of the pool and of the work, from the next step on.
  void set_share(std::uint32_t tenant, TenantShare share);

  // Computes the public texts and keeps them, at the house's expense: whether a tenant has used one can then not be
  // told from how fast it is. Requires an idle engine.
  void warm_public_texts();

  // Something went wrong in the middle of a step: those that ran fail, saying why, and so do those that wait where
  // nobody ran. The engine is as before otherwise, and can go on. REQUIRES: the step ended with an exception.
  void fail_step(const std::string& why);

  bool idle() const { return scheduler_.idle(); }
  void step();  // does nothing when idle
  void run();   // steps until idle

  // A running request continued a second time from where it is: shares all its blocks, draws with its own seed.
  RequestId fork(RequestId id, std::uint64_t seed, OnUpdate on_update);

  // Sees every row of logits before it is sampled from, and those of prompts that are scored: for evaluation, and for
  // the tests of the laws. `position` is that of the token they foretell.
  using OnLogits = std::function<void(RequestId id, Position position, std::span<const float> logits)>;
  void observe(OnLogits observer) {
    break_up();
    observer_ = std::move(observer);
  }

  // Hears of every pause, when it is decided.
  using OnPause = std::function<void(const std::string& request, const Pause& pause)>;
  void on_pause(OnPause listener) { on_pause_ = std::move(listener); }

  // Hears of every client's request that ended by itself.
  using OnFinished = std::function<void(const FinishedSequence& finished)>;
  void on_finished(OnFinished listener) { on_finished_ = std::move(listener); }

  // From now on clients' requests that ask for the one policy run under the other, where that fits.
  void replace_policy(const KvPolicy& policy, const KvPolicy& by);

  std::int64_t context() const { return config_.context; }
  const KvCache& cache() const { return cache_; }
  const KvStorage& storage() const { return storage_; }
  // Sequences that fly in formation are a few tokens behind what was told of them, until catch_up().
  const Scheduler& scheduler() const { return scheduler_; }
  void catch_up();
  const EngineConfig& config() const { return config_; }
  const PolicyBook& policies() const { return policies_; }
  const PinBoard& pins() const { return pins_; }
  const HostSwap& swap() const { return swap_; }
  // Steps that the backend was given before the host knew the tokens of the one before.
  std::int64_t steps_ahead() const { return steps_ahead_; }

 private:
  double now() const;
  void check_policy(const KvPolicy& policy) const;
  void check_fit(const KvPolicy& policy) const;
  void check_room(const Request& request) const;
  bool has_room(const Request& request, const KvPolicy& policy) const;
  std::int64_t kept_from(std::uint32_t tenant) const;
  KvPolicy policy_for(const Request& request) const;
  std::vector<Breakpoint> places_to_keep(const Request& request) const;
  TenantShare share_of(std::uint32_t tenant) const;
  std::int64_t most_pinned(std::uint32_t tenant) const;
  bool launch();
  Matrix enqueue(const std::vector<PlannedRows>& plan);
  void read_logits(const std::vector<PlannedRows>& plan);
  bool take_off(std::span<const PlannedRows> plan, Matrix logits, Flight& flight);
  void fly_ahead();
  void land_each();
  void take_drawn();
  void land();
  void abandon();
  Matrix run_model();
  // engine_formation.cpp
  void form_up();
  void break_up();
  void catch_up(FormationMember& member);
  bool flies_on_in_formation() const;
  bool take_next_block(FormationMember& member);
  void fly_formation();
  bool ends_nobody(std::span<const TokenId> drawn) const;
  void land_formation();
  void show_scored(const Sequence& sequence, std::span<const float> logits) const;
  void measure(int rows, double seconds);
  void advance(Sequence& sequence, int rows);
  void watch_rows(Sequence& sequence);
  enum class PinMoment : std::uint8_t { kRunning, kEnded };
  void pin(Sequence& sequence, PinMoment moment);
  void branch_off(Sequence& sequence, std::span<const float> logits);
  Sequence& twin_of(const Sequence& sequence, Sequence::Fork& fork);
  // What a sequence's next token comes from: logits, or, where those stayed in the backend's memory, what was drawn
  // from them there.
  struct NextRow {
    std::span<float> logits;
    std::optional<TokenId> drawn;
  };
  bool may_draw_in_backend(const Sequence& sequence, std::int64_t answered) const;
  static TokenId draw(Sequence& sequence, const NextRow& row, Position position);
  void choose_or_fail(Sequence& sequence, const NextRow& row);
  void choose(Sequence& sequence, const NextRow& row);
  void finish_done();
  void tell(const Sequence& sequence, TokenId token) const;
  // engine_failures.cpp
  static void fail_for(Sequence& sequence, const std::exception& error);
  void drop_flights();
  static void tell_failed(RequestId id, const OnUpdate& listener, const std::string& why);
  // engine_masks.cpp
  void begin_masks();
  void take_mask(Sequence& sequence);
  bool mask_is_ready(Sequence& sequence, std::span<const float> logits);
  void wait_for_masks();

  Backend& backend_;
  Model& model_;
  EngineConfig config_;
  KvStorage storage_;
  KvCache cache_;
  std::vector<std::pair<KvPolicy, KvPolicy>> replaced_;
  PolicyBook policies_;
  HostSwap swap_;
  PinBoard pins_;        // after cache_, as
  Scheduler scheduler_;  // these: their leases go first
  std::atomic<RequestId> next_id_{1};
  std::atomic<bool> claimed_ = false;
  Batch batch_;
  std::vector<float> logits_;                  // [logit rows][vocab] on the host, …
  std::vector<TokenId> drawn_;                 // … or [logit rows], and no logits
  std::vector<DrawRule> rules_;                // [logit rows]
  Flight flying_;                              // the step in the air; between steps that of the next
  Flight next_;                                // only while a step is carried out
  std::vector<PlannedRows> ahead_;             // kept, so that a step allocates nothing
  std::vector<FormationMember> formation_;     // of flying_, next_ or both, in the order of their rows; or nobody
  std::vector<std::int32_t> views_of_policy_;  // only while it forms up
  MaskWorker masks_;
  std::vector<Sequence*> parked_;   // that wait for a mask
  std::size_t mask_work_left_ = 0;  // of this step
  std::int64_t steps_ahead_ = 0;
  double landed_ = 0;  // when the last tokens came
  OnLogits observer_;
  OnFinished on_finished_;
  OnPause on_pause_;
  Pace pace_;
  std::int64_t steps_measured_ = 0;
  std::int64_t prompts_measured_ = 0;
  double step_seconds_ = 0;  // of the step that is being carried out
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  mutable std::mutex shares_mutex_;
  std::map<std::uint32_t, TenantShare> shares_;  // under shares_mutex_: check() is asked by other threads
  std::atomic<std::int64_t> public_bytes_ = 0;   // of pages that public texts keep
};

// The name of everything that decides what a block's bytes are, but its tokens: weights, formats, retention, kernels.
Key256 policy_key(const Model& model, const Backend& backend, std::span<const KvGroup> groups, int block_tokens);

}  // namespace kvasir
