// What an engine refuses, and under which policy it takes the rest.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/engine_setup.h"

namespace kvasir {

void Engine::check(const Request& request) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt == 0) fail_input("the prompt is empty", "request", "give at least one token");
  if (prompt >= config_.context) {
    throw Error(
        Error::Kind::kCapacity,
        {fmt::format("the prompt has {} tokens, and the context holds {} with the answer", prompt, config_.context),
         "request", "shorten the prompt or raise --ctx-size"});
  }
  for (const TokenId token : request.prompt) {
    if (token < 0 || token >= model_.config().vocab) {
      fail_input(fmt::format("token {} is not in the vocabulary of {}", token, model_.config().vocab), "request");
    }
  }
  if (request.max_tokens < 1)
    fail_input(fmt::format("{} tokens were asked for", request.max_tokens), "request", "ask for at least one");
  if (request.score_from && (*request.score_from < 0 || *request.score_from >= prompt)) {
    fail_input(fmt::format("scoring was asked for from token {} of {}", *request.score_from, prompt), "request");
  }
  if (request.evict_after && (*request.evict_after < 1 || *request.evict_after > prompt)) {
    fail_input(fmt::format("eviction was asked for after token {} of {}", *request.evict_after, prompt), "request");
  }
  check_sampling(request.sampling, "request");
  if (request.logprobs && (*request.logprobs < 0 || *request.logprobs > model_.config().vocab)) {
    fail_input(fmt::format("{} likeliest tokens were asked for", *request.logprobs), "request",
               fmt::format("use 0 to {}", model_.config().vocab));
  }
  if (request.kv && request.origin == Request::Origin::kClient) check_policy(*request.kv);
  if (request.kv) check_fit(*request.kv);
  check_room(request);
}

void Engine::check_policy(const KvPolicy& policy) const {
  const bool listed = policy == config_.kv || std::ranges::find(config_.kv_also, policy) != config_.kv_also.end();
  if (!listed && config_.others != EngineConfig::OtherPolicies::kAny) {
    std::string allowed = fmt::format("\"{}\"", to_text(config_.kv));
    for (const KvPolicy& also : config_.kv_also) allowed += fmt::format(", \"{}\"", to_text(also));
    fail_input(fmt::format("the KV policy \"{}\" is not allowed here", to_text(policy)), "kv",
               fmt::format("use one of {}, or allow it with --kv-allow", allowed));
  }
}

void Engine::check_fit(const KvPolicy& policy) const {
  check_basis(model_, policy);
  const std::vector<KvGroup> groups = kv_groups(model_.config(), policy);
  if (config_.context > model_.config().context && !streams(groups, model_.config().context)) {
    fail_input(fmt::format("the KV policy \"{}\" keeps more tokens than the model was trained for", to_text(policy)),
               "kv", fmt::format("ask for a window of at most {} tokens, sinks included", model_.config().context));
  }
  if (!cache_.fits_a_page(cache_groups(groups, config_.block_tokens))) {
    throw Error(Error::Kind::kCapacity,
                {fmt::format("a block of the KV policy \"{}\" is larger than a page of the cache", to_text(policy)),
                 "kv", "ask for smaller formats"});
  }
}

bool Engine::has_room(const Request& request, const KvPolicy& policy) const {
  const std::int64_t longest = std::min(std::ssize(request.prompt) + request.max_tokens, config_.context);
  const std::vector<CacheGroupConfig> groups = cache_groups(kv_groups(model_.config(), policy), config_.block_tokens);
  return cache_.fits_a_page(groups) && cache_.fits_alone(groups, longest - 1, share_of(request.tenant.id));
}

void Engine::replace_policy(const KvPolicy& policy, const KvPolicy& by) {
  std::erase_if(replaced_, [&policy](const auto& pair) { return pair.first == policy; });
  replaced_.emplace_back(policy, by);
}

// A replacement may be replaced in turn.
KvPolicy Engine::policy_for(const Request& request) const {
  KvPolicy policy = request.kv.value_or(config_.kv);
  if (request.origin == Request::Origin::kEngine) return policy;
  for (size_t i = 0; i < replaced_.size(); ++i) {
    const auto found = std::ranges::find(replaced_, policy, &std::pair<KvPolicy, KvPolicy>::first);
    if (found == replaced_.end() || !has_room(request, found->second)) break;
    policy = found->second;
  }
  return policy;
}

void Engine::check_room(const Request& request) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  const KvPolicy& policy = request.kv ? *request.kv : config_.kv;
  std::int64_t longest = std::min(prompt + request.max_tokens, config_.context);
  if (const auto rule = eviction_rule(policy, request.evict_after.value_or(prompt))) {
    longest = rule->most_rows(longest - 1) + 1;
  }
  const TenantShare share = share_of(request.tenant.id);
  const std::vector<CacheGroupConfig> groups = cache_groups(kv_groups(model_.config(), policy), config_.block_tokens);
  if (cache_.fits_alone(groups, longest - 1, share)) return;  // the last token of an answer is never fed back
  std::int64_t block_bytes = 0;
  for (const CacheGroupConfig& group : groups) block_bytes += group.block_bytes;
  const std::int64_t blocks = cache_.memory_bytes() / block_bytes;
  const bool quota = cache_.fits_alone(groups, longest - 1, {});
  const std::string limit = quota ? fmt::format("{:.0f}% of the cache's {} blocks of {} tokens, your quota",
                                                100 * share.most, blocks, config_.block_tokens)
                                  : fmt::format("the cache's {} blocks of {} tokens", blocks, config_.block_tokens);
  throw Error(Error::Kind::kCapacity,
              {fmt::format("{} tokens of prompt and answer need more than {}", longest, limit), "request",
               quota ? "ask for fewer tokens, or for a larger quota" : "raise --kv-memory, or ask for fewer tokens"});
}

}  // namespace kvasir
