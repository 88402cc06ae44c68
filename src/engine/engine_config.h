// What an engine is made with, and what its parts need of that: values and free functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/kv_storage.h"
#include "base/time_source.h"
#include "engine/draft/drafters.h"
#include "engine/request.h"
#include "engine/schedule/policy_registry.h"
#include "engine/schedule/preemption.h"
#include "engine/schedule/scheduler.h"
#include "kv/cache.h"
#include "layout/kv_policy.h"
#include "model/model.h"

namespace kvasir {

struct EngineConfig {
  enum class Mode : std::uint8_t {
    kCached,
    kRecompute,  // the whole sequence again for every token: the baseline that the cache is measured against
  };

  enum class OtherPolicies : std::uint8_t { kListed, kAny };

  KvPolicy kv;                                    // of requests that name none
  std::vector<KvPolicy> kv_also;                  // others that requests may ask for …
  OtherPolicies others = OtherPolicies::kListed;  // … or any
  std::vector<KvPolicy> internal_policies;        // that no request may ask for: memory is laid out for them as well
  int block_tokens = kDefaultBlockTokens;
  std::int64_t context = 0;    // the longest sequence; 0: what the model was trained for
  std::uint64_t kv_bytes = 0;  // for all blocks; 0: four of the longest sequences, at most half the
                               // memory, or nine tenths of what weights left of a device
  std::string eviction = "lru";
  CacheConfig::Reuse reuse = CacheConfig::Reuse::kOn;
  Mode mode = Mode::kCached;
  SchedulerConfig scheduler;                // max_batch_tokens is bounded by the models' max_rows
  std::optional<std::uint64_t> swap_bytes;  // of host memory for paused requests; nullopt: as much as kv_bytes, at
                                            // most an eighth of the memory
  double pinned_share = 0.5;                // of the blocks, and of a tenant's most: breakpoints keep no more
  std::vector<std::vector<TokenId>> public_texts;  // beginnings that all tenants share; see warm_public_texts()
  SpeculationConfig speculation;
  std::optional<CostModel> costs;           // nullopt: measured, by …
  std::shared_ptr<const TimeSource> clock;  // … this; null: the machine's, from when the engine is made
  std::uint64_t shuffle_blocks = 0;         // a seed: hand blocks out in another order. No answer may depend on it.
};

// A model that an engine runs, and the policy of its requests that name none. All of an engine's models share its
// backend, its memory and its steps; a step runs one batch for each model that has rows in it.
struct EngineModel {
  Model* model = nullptr;  // outlives the engine
  KvPolicy kv;
};

// The same with what follows from the configuration.
struct ServedModel {
  Model* model = nullptr;
  std::int64_t context = 0;  // its longest sequence
  std::shared_ptr<const ResolvedPolicy> kv;

  int vocab() const { return model->config().vocab; }
};

// What was left open is filled in. Throws Error for what makes no sense, or for memory that cannot hold one block of
// each of a model's groups. REQUIRES: the first model's policy is config.kv.
EngineConfig resolve_config(EngineConfig config, std::span<const EngineModel> models, const Backend& backend);
std::vector<ServedModel> served_models(std::span<const EngineModel> models, const EngineConfig& resolved);

// Whether a sequence may go on without end: no query ever sees further than the model was trained for.
bool streams(std::span<const KvGroup> groups, std::int64_t trained);

// Throws Error when the policy keeps shorter rows and the model has no directions for them.
void check_basis(const Model& model, const KvPolicy& policy);

// Throws Error when the policy rounds states and the backend cannot.
void check_states(const Backend& backend, const KvPolicy& policy);

KvStorage::Pages pages_of(std::span<const EngineModel> models, const EngineConfig& config);
CacheConfig cache_config(const ServedModel& first, const Backend& backend, const EngineConfig& config,
                         KvStorage::Pages pages);

// The name of everything that decides what a block's bytes are, but its tokens: weights, formats, retention, kernels.
Key256 policy_key(const Model& model, const Backend& backend, std::span<const KvGroup> groups, int block_tokens);

}  // namespace kvasir
