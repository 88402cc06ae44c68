#include "engine/request_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace kvasir {

CheckedRequest RequestChecks::check(Request request) const {
  if (request.model >= p_.models.size()) {
    fail_input(fmt::format("model {} was asked for, and the engine has {}", request.model, p_.models.size()),
               "request");
  }
  const ServedModel& model = p_.models[request.model];
  if (model.model->config().rerank.classifies()) {
    fail_input("the model is a classifier: it scores texts, and writes none", "request",
               "use /v1/rerank, or a model that generates");
  }
  if (model.model->config().encodes()) {
    fail_input("the model is an encoder: it makes vectors of texts, and writes none", "request",
               "use /v1/embeddings, or a model that generates");
  }
  check_source(request, model);
  check_tokens(request, model);
  check_sampling(request.sampling, "request");
  check_speculative(request, model);
  check_state_budget(request);
  std::shared_ptr<const ResolvedPolicy> policy = policy_of(request, model);
  check_room(request, *policy, model.context);
  return {std::move(request), std::move(policy), p_.config.clock->now()};
}

void RequestChecks::check_vocabulary(std::span<const TokenId> tokens, const ServedModel& model) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= model.vocab()) {
      fail_input(fmt::format("token {} is not in the vocabulary of {}", token, model.vocab()), "request");
    }
  }
}

// An encoder-decoder's prompt becomes its source.
void RequestChecks::check_source(Request& request, const ServedModel& model) {
  const ModelSpec& spec = model.model->config();
  if (!spec.reads_source()) {
    if (!request.source.empty()) fail_input("the model reads no source", "request", "give all of it as the prompt");
    return;
  }
  if (request.source.empty()) {
    if (request.prompt.empty()) fail_input("the prompt is empty", "request", "give at least one token");
    if (request.score_from) {
      fail_input("scores were asked for of a source, which is read whole and not predicted", "request",
                 "ask for scores of a model without an encoder");
    }
    request.source = std::exchange(request.prompt, spec.answer_start);
    request.breakpoints.clear();  // places of a text that goes on, and a source does not
  }
  const std::int64_t most = std::min<std::int64_t>(model.context, model.model->longest_source());
  if (std::ssize(request.source) > most) {
    throw Error(Error::Kind::kCapacity, {fmt::format("the source has {} tokens, and at most {} are read at once",
                                                     request.source.size(), most),
                                         "request", "shorten the prompt or raise --ctx-size"});
  }
  check_vocabulary(request.source, model);
}

void RequestChecks::check_tokens(const Request& request, const ServedModel& model) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (prompt == 0) fail_input("the prompt is empty", "request", "give at least one token");
  if (prompt >= model.context) {
    throw Error(
        Error::Kind::kCapacity,
        {fmt::format("the prompt has {} tokens, and the context holds {} with the answer", prompt, model.context),
         "request", "shorten the prompt or raise --ctx-size"});
  }
  check_vocabulary(request.prompt, model);
  if (request.max_tokens < 1)
    fail_input(fmt::format("{} tokens were asked for", request.max_tokens), "request", "ask for at least one");
  if (request.score_from && (*request.score_from < 0 || *request.score_from >= prompt)) {
    fail_input(fmt::format("scoring was asked for from token {} of {}", *request.score_from, prompt), "request");
  }
  if (request.evict_after && (*request.evict_after < 1 || *request.evict_after > prompt)) {
    fail_input(fmt::format("eviction was asked for after token {} of {}", *request.evict_after, prompt), "request");
  }
  if (request.logprobs && (*request.logprobs < 0 || *request.logprobs > model.vocab())) {
    fail_input(fmt::format("{} likeliest tokens were asked for", *request.logprobs), "request",
               fmt::format("use 0 to {}", model.vocab()));
  }
}

void RequestChecks::check_speculative(const Request& request, const ServedModel& model) const {
  const std::vector<std::string>& has = p_.config.speculation.drafters;
  for (const std::string& name : request.speculative.drafters) {
    if (std::ranges::find(has, name) != has.end()) continue;
    fail_input(fmt::format("there is no drafter '{}' here", name), "speculative",
               has.empty() ? "start with --draft" : fmt::format("use off, or one of {}", fmt::join(has, ", ")));
  }
  if (request.speculative.most < 0) {
    fail_input(fmt::format("a draft of {} tokens makes no sense", request.speculative.most), "speculative",
               "use 0 or more");
  }
  if (request.prediction && std::ssize(*request.prediction) > model.context) {
    fail_input(
        fmt::format("the prediction has {} tokens, and the context {}", request.prediction->size(), model.context),
        "prediction", "shorten it");
  }
}

void RequestChecks::check_state_budget(const Request& request) const {
  const int most = p_.config.scheduler.state_budget;
  const int asked = request.state_budget.value_or(0);
  if (asked >= 0 && asked <= most) return;
  fail_input(fmt::format("a budget of {} states was asked for, and this server allows {}", asked, most), "kv",
             fmt::format("use a state_budget of 0 to {}, or start with a larger --state-budget", most));
}

std::shared_ptr<const ResolvedPolicy> RequestChecks::policy_of(const Request& request,
                                                               const ServedModel& model) const {
  if (!request.kv || *request.kv == model.kv->policy) return model.kv;
  if (request.origin == Request::Origin::kClient) check_allowed(*request.kv, model);
  check_basis(*model.model, *request.kv);
  check_states(p_.backend, *request.kv);
  auto policy = resolve_policy(request.model, *model.model, *request.kv, p_.config.block_tokens);
  check_fit(*policy, model);
  return policy;
}

void RequestChecks::check_allowed(const KvPolicy& policy, const ServedModel& model) const {
  const std::vector<KvPolicy>& also = p_.config.kv_also;
  if (p_.config.others == EngineConfig::OtherPolicies::kAny || std::ranges::find(also, policy) != also.end()) return;
  std::string allowed = fmt::format("\"{}\"", to_text(model.kv->policy));
  for (const KvPolicy& one : also) allowed += fmt::format(", \"{}\"", to_text(one));
  fail_input(fmt::format("the KV policy \"{}\" is not allowed here", to_text(policy)), "kv",
             fmt::format("use one of {}, or allow it with --kv-allow", allowed));
}

void RequestChecks::check_fit(const ResolvedPolicy& policy, const ServedModel& model) const {
  const std::int64_t trained = model.model->config().context;
  if (model.context > trained && !streams(policy.groups, trained)) {
    fail_input(
        fmt::format("the KV policy \"{}\" keeps more tokens than the model was trained for", to_text(policy.policy)),
        "kv", fmt::format("ask for a window of at most {} tokens, sinks included", trained));
  }
  if (!p_.cache.fits_a_page(policy.cache_groups)) {
    throw Error(
        Error::Kind::kCapacity,
        {fmt::format("a block of the KV policy \"{}\" is larger than a page of the cache", to_text(policy.policy)),
         "kv", "ask for smaller formats"});
  }
}

bool RequestChecks::has_room(const Request& request, const ResolvedPolicy& policy) const {
  const std::int64_t context = p_.models[policy.model].context;
  const std::int64_t longest = std::min(std::ssize(request.prompt) + request.max_tokens, context);
  const std::uint32_t tenant = request.tenant.id;
  return p_.cache.fits_a_page(policy.cache_groups) &&
         p_.cache.fits_alone(policy.cache_groups, {longest - 1, std::ssize(request.source)}, p_.shares.of(tenant),
                             p_.shares.kept_from(tenant));
}

std::int64_t RequestChecks::longest_of(std::uint32_t tenant) const {
  const ServedModel& model = p_.models.front();
  const TenantShare share = p_.shares.of(tenant);
  const std::int64_t kept = p_.shares.kept_from(tenant);
  std::int64_t fits = 1;
  for (std::int64_t above = model.context + 1; above - fits > 1;) {
    const std::int64_t middle = fits + (above - fits) / 2;
    // The last token is never fed back. A source may be as long as its answer.
    (p_.cache.fits_alone(model.kv->cache_groups, {middle - 1, middle}, share, kept) ? fits : above) = middle;
  }
  return fits;
}

void RequestChecks::check_room(const Request& request, const ResolvedPolicy& policy, std::int64_t context) const {
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  std::int64_t longest = std::min(prompt + request.max_tokens, context);
  if (const auto rule = eviction_rule(policy.policy, request.evict_after.value_or(prompt))) {
    longest = rule->most_rows(longest - 1) + 1;
  }
  const TenantShare share = p_.shares.of(request.tenant.id);
  const std::int64_t kept = p_.shares.kept_from(request.tenant.id);
  const TextSize size_then(longest - 1, std::ssize(request.source));  // the last is never fed back
  const auto fits = [&](const TenantShare& within, std::int64_t kept_bytes) {
    return p_.cache.fits_alone(policy.cache_groups, size_then, within, kept_bytes);
  };
  if (fits(share, kept)) return;
  const auto size = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  const KvCache::Room needs = p_.cache.room_of(policy.cache_groups, size_then);
  std::string limit = fmt::format("the cache's {} pages of {}", p_.cache.pages(), size(p_.cache.page_bytes()));
  std::string fix = "raise --kv-memory, or ask for fewer tokens";
  if (fits({}, kept)) {
    limit = fmt::format("your quota of {}, {:.0f}% of the cache",
                        size(static_cast<std::int64_t>(share.most * static_cast<double>(p_.cache.memory_bytes()))),
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
