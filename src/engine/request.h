// What a caller asks of the engine, and what it hears back. Tokens only: text is the caller's affair.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "kv/explain.h"
#include "kv/tenant.h"
#include "sample/sampler.h"

namespace kvasir {

struct Request {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::int64_t max_tokens = 256;
  std::vector<TokenId> stop_tokens;  // any of them ends the answer, and is not part of it
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
  const RequestRecord* record = nullptr;  // valid during the call
};

// Called on the engine's thread, once for each token and once at the end; may cancel() but not submit().
using OnUpdate = std::function<void(const Update&)>;

}  // namespace kvasir
