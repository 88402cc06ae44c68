#include "engine/policies.h"

#include <algorithm>

#include "engine/engine.h"

namespace kvasir {

CachePolicy::Sharing sharing_of(const KvPolicy& policy) {
  return policy.evict.on() ? CachePolicy::Sharing::kPrivate : CachePolicy::Sharing::kByName;
}

std::optional<EvictionRule> eviction_rule(const KvPolicy& policy, Position prompt) {
  if (!policy.evict.on()) return std::nullopt;
  return EvictionRule{policy.evict, policy.retention.sinks, prompt};
}

std::int64_t group_budget(const EvictionRule& rule, const KvGroup& group, int model_layers) {
  std::int64_t sum = 0;
  for (const int layer : group.layers) sum += rule.layer_budget(layer, model_layers);
  return sum / std::ssize(group.layers);
}

std::vector<CacheGroupConfig> cache_groups(std::span<const KvGroup> groups, int block_tokens) {
  std::vector<CacheGroupConfig> out;
  for (const KvGroup& group : groups)
    out.push_back({group.retention, make_layout(group, block_tokens).block_bytes()});
  return out;
}

PolicyBook::PolicyBook(const Backend& backend, const Model& model, const KvPolicy& first, KvCache& cache,
                       KvStorage& storage)
    : backend_(backend), model_(model), cache_(cache), storage_(storage) {
  const std::vector<KvGroup> groups = kv_groups(model.config(), first);
  policies_.push_back(std::make_shared<ActivePolicy>(ActivePolicy{0, first, to_text(first), groups}));
  for (size_t i = 0; i < groups.size(); ++i) storage.set_group(cache.groups_of(0)[i], groups[i]);
}

std::shared_ptr<const ActivePolicy> PolicyBook::use(const KvPolicy& policy) {
  const auto known = std::ranges::find(policies_, policy, [](const auto& active) { return active->policy; });
  if (known != policies_.end()) {
    policies_.splice(policies_.begin(), policies_, known);
    return policies_.front();
  }
  drop_idle();
  const std::vector<KvGroup> groups = kv_groups(model_.config(), policy);
  const int tokens = cache_.block_tokens();
  const PolicyId id = cache_.add_policy(
      {policy_key(model_, backend_, groups, tokens), cache_groups(groups, tokens), sharing_of(policy)});
  for (size_t i = 0; i < groups.size(); ++i) storage_.set_group(cache_.groups_of(id)[i], groups[i]);
  policies_.push_front(std::make_shared<ActivePolicy>(ActivePolicy{id, policy, to_text(policy), groups}));
  return policies_.front();
}

void PolicyBook::drop_idle() {
  for (auto oldest = policies_.end(); oldest != policies_.begin() && policies_.size() > kMostIdle;) {
    --oldest;
    const bool idle = oldest->use_count() == 1 && !cache_.in_use((*oldest)->id);
    if ((*oldest)->id == 0 || !idle) continue;
    cache_.drop_policy((*oldest)->id);
    oldest = policies_.erase(oldest);
  }
}

}  // namespace kvasir
