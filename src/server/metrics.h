// What the server counts, and how Prometheus reads it. Names are vLLM's where vLLM has one, so that dashboards work.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "engine/draft/speculator.h"
#include "engine/schedule/scheduler.h"
#include "kv/cache.h"
#include "kv/tenant.h"

namespace kvasir {

struct TenantNumbers {
  std::string name;
  TenantStats stats;
  std::int64_t draft_text_bytes = 0;  // of recent texts that its drafts come from
};

struct PolicyNumbers {
  std::string name;  // its text
  PolicyStats stats;
};

// What the canary saw of a policy.
struct CanaryNumbers {
  std::string name;  // of the policy: its text
  std::int64_t requests = 0;
  std::int64_t tokens = 0;
  double mean_kl = 0;
  double top_agreement = 1;
  std::string replaced_by;  // empty: it is not
};

// The engine's own numbers, read between two steps.
struct EngineNumbers {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t preemptions = 0;
  std::int64_t blocks = 0;
  std::int64_t held_blocks = 0;    // of running requests
  std::int64_t cached_blocks = 0;  // of nobody, to be found again
  std::int64_t block_tokens = 0;
  std::int64_t queried_tokens = 0;
  std::int64_t hit_tokens = 0;
  std::int64_t evicted_blocks = 0;
  Histogram block_lifetime{{}};  // seconds, as CacheStats has them
  Histogram block_idle{{}};
  Histogram block_reuse_gap{{}};
  SchedulerCounts scheduler{};
  std::int64_t pinned_blocks = 0;  // by breakpoints and public texts
  std::int64_t swapped_bytes = 0;  // of paused requests, in host memory
  std::int64_t moved_pages = 0;    // of the cache's memory, from policy to policy
  SpeculationCounts speculation{};
  std::vector<PolicyNumbers> policies{};
  std::vector<CanaryNumbers> canary{};
  std::vector<TenantNumbers> tenants{};
};

struct FinishedRequest {
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;
  std::int64_t generated_tokens = 0;
  double seconds = 0;
  std::string_view reason;  // "stop", "length", "abort", "error"
};

// Counts so far, for charts.
struct ServedNumbers {
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;
  std::int64_t generated_tokens = 0;
  Histogram first_token;
  Histogram next_token;
};

// All methods may be called from any thread.
class Metrics {
 public:
  explicit Metrics(std::string model_name) : model_name_(std::move(model_name)) {}

  void first_token(double seconds);
  void next_token(double seconds);
  void finished(const FinishedRequest& request);
  void embedded(std::int64_t texts, std::int64_t tokens);
  void replied(int status);
  void connections(std::int64_t open);
  void log_lines_dropped(std::int64_t total);

  ServedNumbers numbers() const;

  // The whole page, in Prometheus' text format 0.0.4.
  std::string render(const EngineNumbers& engine) const;

  // What one tenant may see of it: its own lines.
  std::string render_own(const TenantNumbers& own) const;

 private:
  std::string model_name_;
  mutable std::mutex mutex_;
  Histogram first_token_{
      {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}};
  Histogram next_token_{
      {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}};
  Histogram whole_{{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480}};
  std::int64_t prompt_tokens_ = 0;
  std::int64_t reused_tokens_ = 0;
  std::int64_t generated_tokens_ = 0;
  std::int64_t embedded_texts_ = 0;
  std::int64_t embedded_tokens_ = 0;
  std::int64_t open_connections_ = 0;
  std::int64_t log_lines_dropped_ = 0;
  std::map<std::string, std::int64_t, std::less<>> by_reason_{{"abort", 0}, {"error", 0}, {"length", 0}, {"stop", 0}};
  std::map<int, std::int64_t> by_status_;
};

}  // namespace kvasir
