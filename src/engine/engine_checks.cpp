// What an engine refuses, and under which policy it takes the rest.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/bytes.h"
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
  const std::uint32_t tenant = request.tenant.id;
  return cache_.fits_a_page(groups) && cache_.fits_alone(groups, longest - 1, share_of(tenant), kept_from(tenant));
}

// Memory that a tenant can never have, however long it waits: what others are guaranteed, and public texts.
std::int64_t Engine::kept_from(std::uint32_t tenant) const {
  std::int64_t bytes = public_bytes_;
  const std::lock_guard lock(shares_mutex_);
  for (const auto& [id, share] : shares_) bytes += id == tenant ? 0 : cache_.guaranteed_bytes(share);
  return bytes;
}

std::int64_t Engine::longest_of(std::uint32_t tenant) const {
  const std::vector<CacheGroupConfig> groups =
      cache_groups(kv_groups(model_.config(), config_.kv), config_.block_tokens);
  const TenantShare share = share_of(tenant);
  const std::int64_t kept = kept_from(tenant);
  std::int64_t fits = 1;
  for (std::int64_t above = config_.context + 1; above - fits > 1;) {
    const std::int64_t middle = fits + (above - fits) / 2;
    // The last token is never fed back.
    (cache_.fits_alone(groups, middle - 1, share, kept) ? fits : above) = middle;
  }
  return fits;
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
  const std::int64_t kept = kept_from(request.tenant.id);
  const std::vector<CacheGroupConfig> groups = cache_groups(kv_groups(model_.config(), policy), config_.block_tokens);
  const auto fits = [&](const TenantShare& within, std::int64_t kept_bytes) {
    return cache_.fits_alone(groups, longest - 1, within, kept_bytes);  // the last token is never fed back
  };
  if (fits(share, kept)) return;
  const auto size = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  const KvCache::Room needs = cache_.room_of(groups, longest - 1);
  std::string limit = fmt::format("the cache's {} pages of {}", cache_.pages(), size(cache_.page_bytes()));
  std::string fix = "raise --kv-memory, or ask for fewer tokens";
  if (fits({}, kept)) {
    limit = fmt::format("your quota of {}, {:.0f}% of the cache",
                        size(static_cast<std::int64_t>(share.most * static_cast<double>(cache_.memory_bytes()))),
                        100 * share.most);
    fix = "ask for fewer tokens, or for a larger quota";
  } else if (fits({}, 0)) {
    limit += fmt::format(", {} of which are kept for others", size(kept));
    fix = "ask for fewer tokens, or raise --kv-memory";
  }
  throw Error(Error::Kind::kCapacity, {fmt::format("{} tokens of prompt and answer need {} in {} pages, more than {}",
                                                   longest, size(needs.bytes), needs.pages, limit),
                                       "request", fix});
}

}  // namespace kvasir
