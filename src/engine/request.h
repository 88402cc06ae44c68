// What a caller asks of the engine, and what it is notified of. Tokens only: text is the caller's affair.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/ids.h"
#include "engine/draft/drafters.h"
#include "kv/explain.h"
#include "kv/tenant.h"
#include "layout/kv_policy.h"
#include "sample/constraint.h"
#include "sample/logprobs.h"
#include "sample/sampler.h"

namespace kvasir {

using ModelId = std::uint32_t;  // of an engine: 0 is the one it was made for

// Keep the prompt's first `tokens` in the cache for so long, counted from the last time they were used.
struct Breakpoint {
  std::int64_t tokens = 0;
  std::chrono::seconds keep{300};
};

struct Request {
  std::vector<TokenId> prompt;
  // Of an encoder-decoder: what is answered. Empty: the prompt is the source, and the answer begins as the model's
  // do.
  std::vector<TokenId> source = {};
  SamplingParams sampling;
  std::int64_t max_tokens = 256;
  std::vector<TokenId> stop_tokens;                   // any of them ends the answer, and is not part of it
  std::int64_t min_tokens = 0;                        // no stop token may come before
  std::optional<int> logprobs;                        // each token's, and those of so many of the likeliest
  std::shared_ptr<const TokenConstraint> constraint;  // null: any text. Forked for each answer.
  std::vector<Breakpoint> breakpoints;                // ascending
  // Scoring: of the prompt's tokens from here on the engine's observer sees the logits, and they are computed even
  // where the cache has them. Whoever pauses may show some of them twice.
  std::optional<Position> score_from;
  // Under a policy that evicts tokens: so many of the prompt's are what it takes for the prompt, and the rest for
  // what was written since; nullopt: all of it.
  std::optional<std::int64_t> evict_after;
  ModelId model = 0;           // whose tokens they are: which of the engine's models answers
  std::optional<KvPolicy> kv;  // nullopt: the model's own
  // Of recurrent layers: how many states it may leave behind; nullopt: as many as the engine lets anyone.
  std::optional<int> state_budget;
  // What stands before the prompt and its K and V depend on: a source text, an adapter, an image. Requests share what
  // is cached only where this is equal.
  std::optional<Key256> prefix_key;
  SpeculativeParams speculative;
  std::shared_ptr<const std::vector<TokenId>> prediction;  // what the answer may be like; null: nobody knows
  int priority = 0;                                        // within the tenant: the smaller goes first
  Tenant tenant;
  std::string label;  // what logs call it; empty: its id
  // What the engine asks itself may be of any policy, and no on_finished() listener is notified of its end.
  enum class Origin : std::uint8_t { kClient, kInternal };
  Origin origin = Origin::kClient;
};

enum class FinishReason : std::uint8_t { kNone, kStop, kLength, kCancelled, kFailed };

std::string_view name_of(FinishReason reason);  // "stop"

// A time when a request had to let others go first.
struct Preemption {
  enum class How : std::uint8_t {
    kRecompute,  // it let go of its blocks; what is evicted meanwhile is computed again
    kSwap,       // its blocks were copied to host memory, and come back from there
    kWait,       // it kept its blocks and stood still
  };
  How how = How::kRecompute;
  std::int64_t kept_tokens = 0;  // that need not be computed again, as things stood then
  std::int64_t of_tokens = 0;
  double resume_seconds = 0;  // what resuming was estimated to cost
};

std::string_view name_of(Preemption::How how);  // "swap"
// "paused request 7, kept 480 of 512 tokens, about 90 ms to resume".
std::string describe(std::string_view request, const Preemption& preemption);

// Several prompt tokens computed in one step.
struct Chunk {
  Position position = 0;
  int tokens = 0;
  double seconds = 0;  // of the whole step
};

// What drafts came to.
struct DraftCounts {
  std::int64_t drafts = 0;
  std::int64_t proposed = 0;  // tokens that were verified
  std::int64_t accepted = 0;
  std::int64_t branch_proposed = 0;  // of these: tokens beside the main chain
  std::int64_t branch_accepted = 0;

  void add(const DraftCounts& more) {
    drafts += more.drafts;
    proposed += more.proposed;
    accepted += more.accepted;
    branch_proposed += more.branch_proposed;
    branch_accepted += more.branch_accepted;
  }
};
struct DraftRecord : DraftCounts {
  explicit DraftRecord(std::string name) : drafter(std::move(name)) {}
  std::string drafter;
};

// What became of a request: its own record, complete once finished.
struct RequestRecord {
  std::int64_t computed_tokens = 0;  // rows the model ran for it, recomputation after a preemption included
  int steps = 0;
  int preemptions = 0;              // pauses but those that only waited
  std::string kv;                   // the policy it ran under
  ReuseReport reuse;                // of the first open
  double queue_seconds = 0;         // from submit to the first step …
  double first_token_seconds = 0;   // … and to the first token; 0: there was none
  std::vector<Chunk> chunks;        // of the prompt, and of what a pause lost; the first kMostChunks
  std::vector<Preemption> pauses;   // the first kMostPauses
  std::int64_t evicted_tokens = 0;  // of all its tokens, the mean over the heads of layers that evict
  std::int64_t pinned_tokens = 0;   // of the prompt, kept by its breakpoints
  std::vector<DraftRecord> drafts;  // of each drafter that it had tokens of
  static constexpr size_t kMostChunks = 1024;
  static constexpr size_t kMostPauses = 64;
  std::string failure;  // kFailed: what went wrong, and what to do
  enum class Fault : std::uint8_t { kOurs, kRequest };
  Fault fault = Fault::kOurs;  // whose it is

  void count_draft(const std::string& drafter, const DraftCounts& counts) {
    auto found = std::ranges::find(drafts, drafter, &DraftRecord::drafter);
    if (found == drafts.end()) found = drafts.insert(drafts.end(), DraftRecord(drafter));
    found->add(counts);
  }
};

struct Update {
  RequestId id = 0;
  TokenId token = -1;  // -1: the answer ended without one more token
  FinishReason finish = FinishReason::kNone;
  const TokenLogprobs* logprobs = nullptr;  // of the token, if asked for; valid during the call
  const RequestRecord* record = nullptr;    // valid during the call
};

// A client's request that ended by itself; valid during the call.
struct FinishedSequence {
  std::span<const TokenId> tokens;  // prompt and answer
  std::int64_t prompt_tokens = 0;
  const KvPolicy& policy;  // that it ran under
  const Tenant& tenant;
};

// Called on the engine's thread, once for each token and once at the end; may cancel() but not submit().
using OnUpdate = std::function<void(const Update&)>;

// One more answer to the same prompt: it shares the prompt's blocks, and samples with its own seed.
struct Branch {
  std::uint64_t seed = 0;
  OnUpdate on_update;
};

}  // namespace kvasir
