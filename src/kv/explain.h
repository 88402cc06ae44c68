// Why the cache was used as it was: the answer to "why was this not a hit?".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace kvasir {

enum class ReuseStop : std::uint8_t {
  kWholePrompt,    // all that may be reused was: one token is always left to compute
  kShortTail,      // the rest of the prompt does not fill a block
  kDiverged,       // a cached text agrees up to `stopped_at`, and differs there
  kEvicted,        // it was cached, and made room for something else
  kWindowDropped,  // cached, but a layer with a window no longer holds what this position needs
  kStateBefore,    // cached up to `rows_upto`, but for states of recurrent layers: the nearest are here
  kNeverSeen,      // nothing was ever cached after this point
  kOtherPolicy,    // the same beginning is cached, under another KV policy
  kPrivate,        // under this KV policy tokens are evicted: what a request caches is its own
  kOff,            // the cache is switched off for this request
};

std::string_view name_of(ReuseStop stop);  // "diverged"

// Whom evicted blocks made room for. Of other tenants nothing is told but that the pool is shared.
enum class EvictedFor : std::uint8_t {
  kOwnRequest,  // one of the same tenant's
  kOwnQuota,    // the same, because the tenant has the most it may have
  kOthers,      // the pool is shared, and was full
};

std::string_view name_of(EvictedFor whom);  // "own_request"

// Why there is no state at the last place that rows reach.
enum class StateLoss : std::uint8_t {
  kNeverKept,   // none was asked for there, or it was too long ago
  kEvicted,     // it made room for something else
  kSuperseded,  // the same, and before others, since a later state of the same text was kept
};

std::string_view name_of(StateLoss loss);  // "superseded"

struct ReuseReport {
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;
  ReuseStop stop = ReuseStop::kNeverSeen;
  std::int64_t stopped_at = 0;     // position of the first token that could not be reused, and why it was that one
  TokenId cached_token = -1;       // kDiverged: what the nearest cached text has there
  std::int64_t source_tokens = 0;  // of what the text is an answer to, which is found whole or not at all …
  std::int64_t source_reused = 0;
  ReuseStop source_stop = ReuseStop::kNeverSeen;  // … and why it was not
  std::int64_t public_tokens = 0;                 // of those reused: in blocks that all tenants share
  std::int64_t rows_upto = 0;                     // kStateBefore: so far all is cached but states …
  StateLoss state_loss = StateLoss::kNeverKept;   // … and why there is none
  // With kEvicted, of the text or of the source, and with a state that was evicted:
  std::uint64_t evicted_tick = 0;  // when, on the cache's own clock
  double evicted_seconds_ago = 0;  // when, on the clock that the engine sets
  EvictedFor evicted_for = EvictedFor::kOthers;
  std::uint64_t evicted_by = 0;  // the own request it made room for

  // As who asks sees it: the prompt of an encoder-decoder is its source.
  ReuseReport of_prompt() const;
};

// "48 of 61 prompt tokens reused; stopped at token 52: another text was cached that differs there".
std::string describe(const ReuseReport& report);

}  // namespace kvasir
