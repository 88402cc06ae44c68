// One request while it runs: its tokens, how many of them are in the cache, and how to choose the next.
#pragma once

#include <utility>
#include <vector>

#include "engine/request.h"
#include "kv/lease.h"

namespace kvasir {

// A sequence waits without a lease and runs with one. It has no phase: it is caught up when all its tokens but the
// newest are cached, and has something to catch up with otherwise.
struct Sequence {
  Sequence(RequestId sequence_id, Request asked, OnUpdate listener)
      : id(sequence_id),
        request(std::move(asked)),
        on_update(std::move(listener)),
        tokens(request.prompt),
        sampler(request.sampling, request.prompt) {
    if (request.constraint) sampler.constrain(request.constraint->fork());
  }

  RequestId id;
  Request request;
  OnUpdate on_update;
  std::vector<TokenId> tokens;  // prompt and answer
  Sampler sampler;
  KvLease lease;  // invalid while waiting
  std::optional<TokenLogprobs> logprobs;  // of the newest token, where asked for
  RequestRecord record;
  FinishReason finish = FinishReason::kNone;

  std::int64_t pending() const {  // tokens whose K and V are not in the cache
    return static_cast<std::int64_t>(tokens.size()) - (lease.valid() ? lease.length() : 0);
  }
  std::int64_t answered() const { return static_cast<std::int64_t>(tokens.size() - request.prompt.size()); }
};

}  // namespace kvasir
