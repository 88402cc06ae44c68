// What a server was asked, and when: lengths and what texts have in common, never a text. It can be asked again, of
// an engine that computes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_config.h"
#include "engine/request.h"
#include "kv/tenant.h"
#include "trace/step_costs.h"

namespace kvasir {

// What became of a request when it was recorded.
struct MeasuredRequest {
  std::int64_t reused_tokens = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t preemptions = 0;  // pauses …
  std::int64_t waits = 0;        // … and times it only waited for blocks
  std::int64_t drafted = 0;      // tokens that were verified, …
  std::int64_t accepted = 0;     // … and those of them that were right
  double queue_seconds = 0;
  double first_token_seconds = 0;  // 0: there was no token
  double seconds = 0;              // until it was over
};

struct TracedRequest {
  double at = 0;  // seconds since the trace began
  std::int64_t prompt_tokens = 0;
  std::int64_t answer_tokens = 0;  // that came
  std::int64_t max_tokens = 0;     // that were asked for
  FinishReason finish = FinishReason::kLength;
  // What is known of its tokens, one of these; where nothing is, no other text begins like it.
  std::string tags;                  // of prompt and answer: see TextTags
  std::vector<std::int64_t> hashes;  // of the prompt's blocks of `hash_tokens` tokens, each of all before it as well
  std::int64_t hash_tokens = 0;
  std::uint64_t id = 0;       // in the server that wrote the trace
  std::uint64_t twin_of = 0;  // whose prompt it answers as well; 0: its own
  std::uint32_t tenant = 0;
  std::optional<TenantShare> share;  // of its tenant; none: that of who was given none
  std::string kv;                    // empty: the server's own policy
  std::vector<Breakpoint> breakpoints;
  int priority = 0;
  std::optional<MeasuredRequest> measured;
};

// How the server was started, as far as its cache and its schedule depend on it.
struct TraceConfig {
  std::string id;      // of the trace: another in each process
  std::string time;    // of second 0: "2026-08-01T12:00:00.123Z"
  std::string model;   // as --model has it
  std::string device;  // "cpu, avx512, 2 threads"
  enum class Samples : std::uint8_t { kOnHost, kOnDevice };
  Samples samples = Samples::kOnHost;  // on the device: steps are given to it before the tokens of the last are known
  EngineConfig engine;                 // resolved; texts and the clock are not kept
};

struct RequestTrace {
  std::optional<TraceConfig> config;    // none: of a public format
  std::vector<TracedRequest> requests;  // by the time they came
  StepCosts costs;
  std::int64_t lost_lines = 0;      // that the server could not write
  std::int64_t unread_lines = 0;    // that are none, as the last one before a disk was full
  std::int64_t other_requests = 0;  // of kinds that are not replayed: those that answer to a source
};

}  // namespace kvasir
