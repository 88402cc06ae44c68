// One request while it runs: its tokens, how many of them are in the cache, and how to choose the next.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/draft/sequence_drafts.h"
#include "engine/request.h"
#include "engine/schedule/host_swap.h"
#include "engine/schedule/policy_registry.h"
#include "engine/step/mask_worker.h"
#include "engine/step/token_evictor.h"
#include "engine/step/token_rows.h"
#include "kv/cache.h"
#include "kv/lease.h"

namespace kvasir {

// A sequence waits without a lease and runs with one. It has no phase: it has tokens that are not computed yet, and
// those are its newest alone while it answers.
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

  // A step of a steady batch looks at this alone, and at the beginning of the record: one line of memory.
  RequestId id;
  FinishReason finish = FinishReason::kNone;
  OnUpdate on_update;
  RequestRecord record;

  Request request;
  std::vector<TokenId> tokens;  // prompt and answer
  Sampler sampler;
  std::shared_ptr<const ActivePolicy> policy;  // null: the engine's own
  std::optional<EvictionRule> eviction;        // if its policy evicts tokens
  std::unique_ptr<TokenRows> rows;             // likewise, while it runs
  KvLease lease;                               // invalid while waiting
  std::unique_ptr<SavedBlocks> saved;          // while paused, if it was swapped out
  std::vector<Key256> block_keys;              // while waiting, once they were needed: see KvCache::block_keys
  std::int64_t passed_blocks = 0;              // while waiting without room: what was given to others behind it, …
  int steps_without_room = 0;                  // … and how often it was looked for
  std::shared_ptr<MaskWorker::Job> mask;       // which tokens its form allows, while that is found out elsewhere …
  std::vector<float> mask_logits;              // … and what its next token will be chosen from
  bool slow_masks = false;                     // the last one took longer than a step has time for
  std::uint64_t arrival = 0;                   // the smaller came first; set by the scheduler
  bool stalled = false;                        // it waits for blocks, and keeps those it has
  bool waiting_for_prefix = false;             // it waited for another's prompt
  Draft draft;                                 // of the step that it is scheduled in: see Speculator
  std::unique_ptr<SequenceDrafts> drafts;      // once somebody guessed
  std::int64_t computed_again = 0;             // tokens before those of its step that a drafter wants computed again
  double submitted = 0;                        // when it was asked for, on the engine's clock
  RequestId twin_of = 0;                       // whose prompt it answers as well; 0: its own
  struct Fork {
    RequestId id = 0;
    Branch branch;
  };
  std::vector<Fork> forks;              // more answers to the same prompt, until the first token
  std::vector<float> fork_logits;       // what their first tokens are sampled from
  size_t pinned_breakpoints = 0;        // of the request's, in order
  std::vector<Position> state_marks;    // where its states are kept, if it has some: a step ends at each of them
  std::vector<TokenLogprobs> logprobs;  // of the tokens that the last step gave it, where asked for
  std::int64_t context = std::numeric_limits<std::int64_t>::max();  // tokens that it may have at most

  // It answers another branch of the same request from now on, whose listener the caller sets. Requires that it
  // has answered nothing yet.
  void answer_for(const Fork& fork) {
    id = fork.id;
    request.sampling.seed = fork.branch.seed;
    sampler = Sampler(request.sampling, request.prompt);
    if (request.constraint) sampler.constrain(request.constraint->fork());
  }

  // Whose K and V are not in the cache.
  std::int64_t num_uncomputed_tokens() const {
    return static_cast<std::int64_t>(tokens.size()) - (lease.valid() ? lease.length() : 0);
  }
  // It answers: all that is not computed is its newest token, or a few that a draft brought and a state had to
  // forget.
  bool decodes(std::int64_t block_tokens) const {
    const std::int64_t uncomputed = num_uncomputed_tokens();
    return uncomputed == 1 || (uncomputed <= block_tokens && num_output_tokens() >= uncomputed);
  }
  std::int64_t num_output_tokens() const { return static_cast<std::int64_t>(tokens.size() - request.prompt.size()); }
  // That it may be given.
  std::int64_t num_tokens_left() const {
    return std::min(request.max_tokens - num_output_tokens(), context - static_cast<std::int64_t>(tokens.size()));
  }
  bool has_pins_to_come() const { return pinned_breakpoints < request.breakpoints.size(); }
  bool waits_for_mask() const { return mask != nullptr; }
  ModelId model() const { return request.model; }
  PolicyId policy_id() const { return policy == nullptr ? 0 : policy->id; }
  // As whose the cache knows its blocks.
  OpenContext open_context() const { return {request.tenant, id, policy_id(), request.prefix_key, request.source}; }
  // Of its source, if the next step must read it.
  std::int64_t source_rows() const { return lease.valid() && lease.lacks_source() ? std::ssize(request.source) : 0; }
};

}  // namespace kvasir
