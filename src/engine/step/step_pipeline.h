// Steps on their way through the backend: given to it, and collected when they are done.
//
// Where the backend samples tokens itself, the next step is scheduled and given to it before the tokens of this one
// are known on the host (async scheduling): the device goes on while the host reads tokens, accepts them and
// notifies. That is possible when everybody who runs gets a token and nobody joins, is preempted or waits for logits.
// Who ends with a token that was not foreseen (a stop token, no numbers) has a row too many in it, which nobody looks
// at: it is written behind the last token of a sequence that lets go of the block, before anybody else writes there.
//
// Nobody outside knows whether a step runs ahead, but that sequences of a steady batch (steady_batch.h) are a few
// tokens behind what their listeners know, until flush().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/kv_storage.h"
#include "engine/draft/speculator.h"
#include "engine/engine_config.h"
#include "engine/listeners.h"
#include "engine/schedule/cost_meter.h"
#include "engine/schedule/scheduler.h"
#include "engine/step/in_flight_step.h"
#include "engine/step/steady_batch.h"

namespace kvasir {

class StepPipeline {
 public:
  // All outlive this.
  struct Parts {
    Backend& backend;
    std::span<const ServedModel> models;
    KvStorage& storage;
    KvCache& cache;
    Scheduler& scheduler;
    CostMeter& costs;
    const EngineListeners& listeners;
    Speculator& speculator;
    EngineConfig::Mode mode;
  };
  explicit StepPipeline(const Parts& parts);
  ~StepPipeline() { discard_in_flight(); }
  StepPipeline(const StepPipeline&) = delete;
  StepPipeline& operator=(const StepPipeline&) = delete;

  bool in_flight() const { return current_.active; }

  // Gives a step to the backend, one batch for each model. REQUIRES: none is in flight.
  void submit(std::span<const ScheduledTokens> scheduled);
  // Gives it the next one as well, where that can be foreseen. REQUIRES: one is in flight.
  void schedule_ahead();
  // Waits for the first of them. What it computed for each sequence, valid until the next call; nothing of a steady
  // batch, whose tokens are accepted already, and their listeners notified.
  std::span<const ComputedRows> collect_outputs();

  // Sequences, leases and the cache have all that listeners were notified of.
  void flush() { steady_.flush(); }
  // The sequence has ended: nobody wants what is in flight of it.
  void forget(const Sequence& sequence);
  // Nobody wants anything that is in flight. It is waited for, since it writes to memory that is given away next.
  void discard_in_flight() noexcept;

  struct Counts {
    std::int64_t ahead = 0;   // steps that the backend was given before the tokens of the one before were known …
    std::int64_t steady = 0;  // … and those of them that were a steady batch's
  };
  const Counts& counts() const { return counts_; }

 private:
  Matrix run(std::span<const ScheduledTokens> scheduled);  // all of one model
  Matrix run_model(ModelId model);
  void track_scores(Sequence& sequence) const;
  static void describe(std::span<const ScheduledTokens> scheduled, InFlightStep& step);
  bool may_sample_on_device(const Sequence& sequence, std::int64_t outputs) const;
  bool sample_on_device(std::span<const ScheduledTokens> scheduled, Matrix logits, InFlightStep& step);
  std::span<const ScheduledTokens> by_model(std::span<const ScheduledTokens> scheduled);
  size_t download(Matrix logits, std::span<const ScheduledTokens> all, size_t done);
  bool is_foreseen();
  bool foresee();
  void run_steady();
  void leave_steady();
  void list_computed(const InFlightStep& step);

  Parts p_;
  std::vector<StepBatch> batches_;  // by model
  InFlightStep current_;            // between steps: what was scheduled ahead
  InFlightStep next_;               // only while a step is carried out
  SteadyBatch steady_;              // of current_, next_ or both
  std::vector<float> logits_;       // [logit rows][vocab] of current_, on the host, …
  std::vector<TokenId> sampled_;    // … or [samples], and no logits
  // Kept, so that a step allocates nothing.
  std::vector<ScheduledTokens> scheduled_;
  std::vector<InFlightStep::Rows> rows_;
  std::vector<ComputedRows> computed_;
  Counts counts_;
};

}  // namespace kvasir
