// What a caller asks of the engine, and what it hears back. Tokens only: text is the caller's affair.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "kv/explain.h"
#include "kv/tenant.h"
#include "sample/constraint.h"
#include "sample/logprobs.h"
#include "sample/sampler.h"

namespace kvasir {

// Keep the prompt's first `tokens` in the cache for so long, counted from the last time they were used.
struct Breakpoint {
  std::int64_t tokens = 0;
  std::chrono::seconds keep{300};
};

struct Request {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::int64_t max_tokens = 256;
  std::vector<TokenId> stop_tokens;  // any of them ends the answer, and is not part of it
  std::int64_t min_tokens = 0;                        // no stop token may come before
  std::optional<int> logprobs;                        // tell each token's, and so many of the likeliest
  std::shared_ptr<const TokenConstraint> constraint;  // null: any text. Forked for each answer.
  std::vector<Breakpoint> breakpoints;                // ascending
  int priority = 0;                                   // within the tenant: the smaller goes first
  Tenant tenant;
};

enum class FinishReason : std::uint8_t { kNone, kStop, kLength, kCancelled, kFailed };

std::string_view name_of(FinishReason reason);  // "stop"

// What became of a request: its own record, complete once finished.
struct RequestRecord {
  ReuseReport reuse;                 // of the first open
  std::int64_t computed_tokens = 0;  // rows the model ran for it, recomputation after a preemption included
  int preemptions = 0;
  int steps = 0;
  std::string failure;  // kFailed: what went wrong, and what to do
};

struct Update {
  RequestId id = 0;
  TokenId token = -1;  // -1: the answer ended without one more token
  FinishReason finish = FinishReason::kNone;
  const TokenLogprobs* logprobs = nullptr;  // of the token, if asked for; valid during the call
  const RequestRecord* record = nullptr;  // valid during the call
};

// Called on the engine's thread, once for each token and once at the end; may cancel() but not submit().
using OnUpdate = std::function<void(const Update&)>;

}  // namespace kvasir
