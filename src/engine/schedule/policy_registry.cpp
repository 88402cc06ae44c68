#include "engine/schedule/policy_registry.h"

#include <algorithm>
#include <numeric>

#include "engine/engine_config.h"

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

namespace {

CacheGroupConfig::Keeps keeps_of(KvGroup::StateUse use) {
  switch (use) {
    case KvGroup::StateUse::kLive:
      return CacheGroupConfig::Keeps::kLiveState;
    case KvGroup::StateUse::kKept:
      return CacheGroupConfig::Keeps::kKeptState;
    case KvGroup::StateUse::kBoth:
      break;
  }
  return CacheGroupConfig::Keeps::kState;
}

}  // namespace

std::vector<CacheGroupConfig> cache_groups(const ModelSpec& spec, std::span<const KvGroup> groups, int block_tokens) {
  std::vector<CacheGroupConfig> out;
  for (const KvGroup& group : groups) {
    CacheGroupConfig one{group.retention, block_bytes_of(group, block_tokens)};
    if (group.keeps_state()) one.keeps = keeps_of(group.state_use);
    if (group.only_kept()) one.state_step = static_cast<int>(kStateStep);
    if (!group.keeps_state() && is_of_source(spec, group)) one.keeps = CacheGroupConfig::Keeps::kSource;
    out.push_back(one);
  }
  return out;
}

std::int64_t state_step(std::span<const KvGroup> groups, int block_tokens) {
  const bool rounded = std::ranges::any_of(groups, &KvGroup::only_kept);
  return rounded ? std::lcm(std::int64_t{block_tokens}, kStateStep) : block_tokens;
}

std::shared_ptr<const ResolvedPolicy> resolve_policy(ModelId id, const Model& model, const KvPolicy& policy,
                                                     int block_tokens) {
  auto out = std::make_shared<ResolvedPolicy>();
  out->model = id;
  out->policy = policy;
  out->groups = kv_groups(model.config(), policy);
  out->cache_groups = cache_groups(model.config(), out->groups, block_tokens);
  return out;
}

PolicyRegistry::PolicyRegistry(const Backend& backend, const ResolvedPolicy& first, KvCache& cache,
                               KvStorage& storage)
    : backend_(backend), cache_(cache), storage_(storage) {
  policies_.push_back(std::make_shared<ActivePolicy>(ActivePolicy{first, 0, to_text(first.policy)}));
  for (size_t i = 0; i < first.groups.size(); ++i) storage.set_group(cache.groups_of(0)[i], first.groups[i]);
}

std::shared_ptr<const ActivePolicy> PolicyRegistry::use(const Model& model, const ResolvedPolicy& policy) {
  const auto known = std::ranges::find_if(policies_, [&policy](const auto& active) {
    return active->model == policy.model && active->policy == policy.policy;
  });
  if (known != policies_.end()) {
    policies_.splice(policies_.begin(), policies_, known);
    return policies_.front();
  }
  drop_idle();
  const PolicyId id = cache_.add_policy({policy_key(model, backend_, policy.groups, cache_.block_tokens()),
                                         policy.cache_groups, sharing_of(policy.policy)});
  for (size_t i = 0; i < policy.groups.size(); ++i) storage_.set_group(cache_.groups_of(id)[i], policy.groups[i]);
  policies_.push_front(std::make_shared<ActivePolicy>(ActivePolicy{policy, id, to_text(policy.policy)}));
  return policies_.front();
}

void PolicyRegistry::replace(const KvPolicy& policy, std::shared_ptr<const ResolvedPolicy> by) {
  std::erase_if(replaced_, [&](const auto& pair) { return pair.first == policy && pair.second->model == by->model; });
  replaced_.emplace_back(policy, std::move(by));
}

std::shared_ptr<const ResolvedPolicy> PolicyRegistry::replacement_of(const ResolvedPolicy& policy) const {
  const auto found = std::ranges::find_if(replaced_, [&policy](const auto& pair) {
    return pair.first == policy.policy && pair.second->model == policy.model;
  });
  return found == replaced_.end() ? nullptr : found->second;
}

void PolicyRegistry::drop_idle() {
  for (auto oldest = policies_.end(); oldest != policies_.begin() && policies_.size() > kMostIdle;) {
    --oldest;
    const bool idle = oldest->use_count() == 1 && !cache_.in_use((*oldest)->id);
    if ((*oldest)->id == 0 || !idle) continue;
    cache_.drop_policy((*oldest)->id);
    oldest = policies_.erase(oldest);
  }
}

}  // namespace kvasir
