// One request while it runs: its tokens, how many of them are in the cache, and how to choose the next.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/host_swap.h"
#include "engine/mask_worker.h"
#include "engine/policies.h"
#include "engine/request.h"
#include "engine/sequence_rows.h"
#include "kv/lease.h"
#include "kv/token_evictor.h"

namespace kvasir {

// A sequence waits without a lease and runs with one. It has no phase: it is caught up when all its tokens but the
// newest are cached, and has something to catch up with otherwise.
struct alignas(64) Sequence {
  Sequence(RequestId sequence_id, Request asked, OnUpdate listener)
      : id(sequence_id),
        on_update(std::move(listener)),
        request(std::move(asked)),
        tokens(request.prompt),
        sampler(request.sampling, request.prompt) {
    constexpr std::int64_t kRoomAtOnce = 4096;  // for an answer; longer ones grow
    tokens.reserve(tokens.size() + static_cast<size_t>(std::clamp<std::int64_t>(request.max_tokens, 0, kRoomAtOnce)));
    if (request.constraint) sampler.constrain(request.constraint->fork());
  }

  // What it runs under. Requires that it has no lease.
  void use(std::shared_ptr<const ActivePolicy> active) {
    policy = std::move(active);
    const auto prompt = static_cast<Position>(request.prompt.size());
    if (policy != nullptr) eviction = eviction_rule(policy->policy, request.evict_after.value_or(prompt));
  }

  // A step of a formation looks at this alone, and at the beginning of the record: one line of memory.
  RequestId id;
  FinishReason finish = FinishReason::kNone;
  OnUpdate on_update;
  RequestRecord record;

  Request request;
  std::vector<TokenId> tokens;  // prompt and answer
  Sampler sampler;
  std::shared_ptr<const ActivePolicy> policy;  // null: the engine's own
  std::optional<EvictionRule> eviction;        // if its policy evicts tokens
  std::unique_ptr<SequenceRows> rows;          // likewise, while it runs
  KvLease lease;                               // invalid while waiting
  std::unique_ptr<SavedBlocks> saved;          // while paused, if it was swapped out
  std::vector<Key256> block_names;             // while waiting, once they were needed: see KvCache::block_names
  std::int64_t passed_blocks = 0;              // while waiting without room: what was given to others behind it, …
  int plans_without_room = 0;                  // … and how often it was looked for
  std::shared_ptr<MaskWorker::Job> mask;       // which tokens its form allows, while that is found out elsewhere …
  std::vector<float> mask_logits;              // … and what its next token will be chosen from
  bool slow_masks = false;                     // the last one took longer than a step has time for
  std::uint64_t arrival = 0;                   // the smaller came first; set by the scheduler
  bool standing_still = false;                 // it waits for blocks, and keeps those it has
  bool held_back = false;                      // it waited for another's prompt
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();
  struct Fork {
    RequestId id = 0;
    Branch branch;
  };
  std::vector<Fork> forks;                // more answers to the same prompt, until the first token
  size_t pinned_breakpoints = 0;          // of the request's, in order
  std::optional<TokenLogprobs> logprobs;  // of the newest token, where asked for

  // It answers another branch of the same request from now on, whose listener the caller gives it. Requires that it
  // has answered nothing yet.
  void answer_for(const Fork& fork) {
    id = fork.id;
    request.sampling.seed = fork.branch.seed;
    sampler = Sampler(request.sampling, request.prompt);
    if (request.constraint) sampler.constrain(request.constraint->fork());
  }

  std::int64_t pending() const {  // tokens whose K and V are not in the cache
    return static_cast<std::int64_t>(tokens.size()) - (lease.valid() ? lease.length() : 0);
  }
  bool waits_for_mask() const { return mask != nullptr; }
  PolicyId policy_id() const { return policy == nullptr ? 0 : policy->id; }
  std::int64_t answered() const { return static_cast<std::int64_t>(tokens.size() - request.prompt.size()); }
};

}  // namespace kvasir
