// The KV policies that requests run under, each of one model: it comes into being with the first request that asks
// for it, and goes when nobody uses it and others are wanted. All share one memory.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/kv_storage.h"
#include "engine/request.h"
#include "engine/step/token_evictor.h"
#include "kv/cache.h"
#include "layout/kv_policy.h"
#include "model/model.h"

namespace kvasir {

// A policy for one of an engine's models, and what follows from both. Computed once on a request's way.
struct ResolvedPolicy {
  ModelId model = 0;
  KvPolicy policy;
  std::vector<KvGroup> groups;                 // in the order that the cache has them
  std::vector<CacheGroupConfig> cache_groups;  // the same, as the cache knows them
};

// Throws Error where the policy is not for this model.
std::shared_ptr<const ResolvedPolicy> resolve_policy(ModelId id, const Model& model, const KvPolicy& policy,
                                                     int block_tokens);

// One that the cache has groups for.
struct ActivePolicy : ResolvedPolicy {
  PolicyId id = 0;
  std::string text;
};

// What the cache must know of a policy's groups.
CachePolicy::Sharing sharing_of(const KvPolicy& policy);
std::vector<CacheGroupConfig> cache_groups(const ModelSpec& spec, std::span<const KvGroup> groups, int block_tokens);

// Of what length a text is a multiple wherever states of these groups are kept.
std::int64_t state_step(std::span<const KvGroup> groups, int block_tokens);

// How a sequence with so long a prompt evicts tokens, if its policy does; and what each head of a group then keeps,
// in a model of so many layers.
std::optional<EvictionRule> eviction_rule(const KvPolicy& policy, Position prompt);
std::int64_t group_budget(const EvictionRule& rule, const KvGroup& group, int model_layers);

class PolicyRegistry {
 public:
  // So many may be kept that nobody uses, for what is cached under them.
  static constexpr size_t kMostIdle = 32;

  // All outlive the registry. `first` is the policy that the cache was made with.
  PolicyRegistry(const Backend& backend, const ResolvedPolicy& first, KvCache& cache, KvStorage& storage);

  // Requires that its blocks fit a page. The policy stays while somebody has what is returned.
  std::shared_ptr<const ActivePolicy> use(const Model& model, const ResolvedPolicy& policy);
  const std::list<std::shared_ptr<const ActivePolicy>>& all() const { return policies_; }  // latest used first

  // From now on clients' requests that ask for the one policy run under the other: see replacement_of().
  void replace(const KvPolicy& policy, std::shared_ptr<const ResolvedPolicy> by);
  // Null: it is not replaced.
  std::shared_ptr<const ResolvedPolicy> replacement_of(const ResolvedPolicy& policy) const;
  size_t replacements() const { return replaced_.size(); }

 private:
  void drop_idle();

  const Backend& backend_;
  KvCache& cache_;
  KvStorage& storage_;
  std::list<std::shared_ptr<const ActivePolicy>> policies_;
  std::vector<std::pair<KvPolicy, std::shared_ptr<const ResolvedPolicy>>> replaced_;
};

}  // namespace kvasir
