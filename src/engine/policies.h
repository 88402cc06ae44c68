// The KV policies that requests run under: each comes into being with the first request that asks for it, and goes
// when nobody uses it and others are wanted. All share one memory.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/kv_storage.h"
#include "kv/cache.h"
#include "kv/token_evictor.h"
#include "layout/kv_policy.h"
#include "model/model.h"

namespace kvasir {

struct ActivePolicy {
  PolicyId id = 0;
  KvPolicy policy;
  std::string text;
  std::vector<KvGroup> groups;  // in the order that the cache has them
};

// What the cache must know of a policy's groups.
CachePolicy::Sharing sharing_of(const KvPolicy& policy);
std::vector<CacheGroupConfig> cache_groups(std::span<const KvGroup> groups, int block_tokens);

// How a sequence with so long a prompt evicts tokens, if its policy does; and what each head of a group then keeps,
// in a model of so many layers.
std::optional<EvictionRule> eviction_rule(const KvPolicy& policy, Position prompt);
std::int64_t group_budget(const EvictionRule& rule, const KvGroup& group, int model_layers);

class PolicyBook {
 public:
  // So many may be kept that nobody uses, for what is cached under them.
  static constexpr size_t kMostIdle = 32;

  // All outlive the book. `first` is the policy that the cache was made with.
  PolicyBook(const Backend& backend, const Model& model, const KvPolicy& first, KvCache& cache, KvStorage& storage);

  // Requires that its blocks fit a page. The policy stays while somebody has what is returned.
  std::shared_ptr<const ActivePolicy> use(const KvPolicy& policy);
  const std::list<std::shared_ptr<const ActivePolicy>>& all() const { return policies_; }  // latest used first

 private:
  void drop_idle();

  const Backend& backend_;
  const Model& model_;
  KvCache& cache_;
  KvStorage& storage_;
  std::list<std::shared_ptr<const ActivePolicy>> policies_;
};

}  // namespace kvasir
