// Sequences that decode on together (a persistent batch): the same ones, a token each, step after step, none of which
// ends, waits or is looked at.
//
// What a step needs of each lies side by side here, and what it learns is noted here first: the sequence and the
// cache get it when a block is full, when somebody comes, ends or is cancelled, and when somebody asks. So a step
// touches a few lines of memory for a sequence where the sequence, its lease and its tables are some thirty, which
// others have driven from the caches while the host waited.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"
#include "engine/step/in_flight_step.h"
#include "kv/cache.h"
#include "model/batch.h"

namespace kvasir {

// INVARIANT, between two steps: the sequence's tokens and `pending` behind them are all that is known; the lease's
// and as many more are computed: all but the last of these, whose row is in flight.
struct alignas(64) DecodeSlot {
  static constexpr size_t kMostPending = 20;  // more than a block of the usual size, and two lines of memory in all
  static constexpr size_t kMostStops = 4;

  Sequence* sequence = nullptr;
  std::int64_t tokens_left = 0;        // that it may be given, the one in flight included
  std::int32_t block_tokens_left = 0;  // rows of its last block behind the one in flight
  std::int32_t view = 0;               // its place among the batch's sequences of its policy
  std::uint32_t tenant = 0;
  std::uint32_t count = 0;                                // of `pending`
  std::array<TokenId, kMostStops> stops{-1, -1, -1, -1};  // -1: none
  std::array<TokenId, kMostPending> pending{};

  bool stops_at(TokenId token) const { return std::ranges::find(stops, token) != stops.end(); }  // or is no token
  // The row in flight is computed, and this was sampled from it.
  void add(TokenId token) {
    pending[count++] = token;
    --tokens_left;
  }
};
static_assert(sizeof(DecodeSlot) == 128);

// A batch of a model, and how its rows are sampled from: kept between steps, so that one allocates nothing.
struct StepBatch {
  Batch rows;
  std::vector<SampleRule> rules;  // [logit rows]
};

class SteadyBatch {
 public:
  // Both outlive this.
  SteadyBatch(KvCache& cache, Scheduler& scheduler) : cache_(cache), scheduler_(scheduler) {}

  bool active() const { return !slots_.empty(); }
  std::int64_t size() const { return std::ssize(slots_); }
  bool contains(const Sequence& sequence) const {
    return std::ranges::find(slots_, &sequence, &DecodeSlot::sequence) != slots_.end();
  }

  // After a step that was scheduled ahead, and is to be followed by more of its kind: its sequences are the batch's
  // from now on. False: some of them cannot be. REQUIRES: not active.
  bool enter(std::span<const ScheduledTokens> scheduled);

  // Sequences, leases and the cache get all that is noted here. It goes on.
  void flush();
  // It ends. The rows of a step in flight of it, each with its place, are left in `scheduled`.
  void leave(std::vector<InFlightStep::Rows>& scheduled);

  // It ends, and nobody wants what is noted here.
  void discard() { slots_.clear(); }

  // Whether one more step of all would be one more step of all.
  bool can_continue() const {
    return std::ranges::all_of(slots_, [](const DecodeSlot& slot) { return slot.tokens_left > 1; });
  }
  // The batch of the step before becomes that of the next, a position on. False: somebody has no room, and it must be
  // left. REQUIRES: can_continue().
  bool advance(StepBatch& batch);

  // Whether these tokens, one for each, end nobody: then publish() may take them.
  bool ends_nobody(std::span<const TokenId> sampled) const;
  // Each token is accepted and its listener notified. Its row is committed later.
  void publish(std::span<const TokenId> sampled);

 private:
  void flush(DecodeSlot& slot);
  bool take_next_block(DecodeSlot& slot, Batch& batch);

  KvCache& cache_;
  Scheduler& scheduler_;
  std::vector<DecodeSlot> slots_;              // in the order of their rows
  std::vector<std::int32_t> views_of_policy_;  // only while it is entered
};

}  // namespace kvasir
