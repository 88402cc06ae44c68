// How requests come, part and leave, and what tenants may have.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/engine_setup.h"

namespace kvasir {

RequestId Engine::submit(Request request, OnUpdate on_update) {
  return submit(std::move(request), std::move(on_update), {}).front();
}

std::vector<RequestId> Engine::submit(Request request, OnUpdate on_update, std::vector<Branch> branches) {
  check(request);
  std::vector<RequestId> ids(1 + branches.size());
  for (RequestId& id : ids) id = new_id();
  start(ids, std::move(request), std::move(on_update), std::move(branches));
  return ids;
}

void Engine::start(std::span<const RequestId> ids, Request request, OnUpdate on_update,
                   std::vector<Branch> branches) {
  CHECK(ids.size() == 1 + branches.size());
  Sequence* added = nullptr;
  try {
    request.breakpoints = places_to_keep(request);
    const KvPolicy policy = policy_for(request);
    auto sequence = std::make_unique<Sequence>(ids[0], std::move(request), OnUpdate{});
    sequence->use(policies_.use(policy));
    sequence->record.kv = sequence->policy->text;
    sequence->forks.reserve(branches.size());
    added = scheduler_.add(std::move(sequence));
  } catch (const std::exception& error) {  // whoever asked is waiting to hear of it
    tell_failed(ids[0], on_update, error.what());
    for (size_t i = 0; i < branches.size(); ++i) tell_failed(ids[i + 1], branches[i].on_update, error.what());
    return;
  }
  added->on_update = std::move(on_update);
  for (size_t i = 0; i < branches.size(); ++i) added->forks.push_back({ids[i + 1], std::move(branches[i])});
}

// Where a window slides, the last whole block before a mark must be kept with what its window sees from there, and
// the block that the mark is in by itself.
std::vector<Breakpoint> Engine::places_to_keep(const Request& request) const {
  const std::vector<KvGroup> groups = kv_groups(model_.config(), request.kv.value_or(config_.kv));
  if (std::ranges::all_of(groups, [](const KvGroup& group) { return group.retention.full(); })) {
    return request.breakpoints;
  }
  std::vector<Breakpoint> out;
  for (const Breakpoint& mark : request.breakpoints) {
    const std::int64_t whole = mark.tokens / config_.block_tokens * config_.block_tokens;
    if (whole > 0 && whole < mark.tokens) out.push_back({whole, mark.keep});
    out.push_back(mark);
  }
  return out;
}

TenantShare Engine::share_of(std::uint32_t tenant) const {
  const std::lock_guard lock(shares_mutex_);
  const auto found = shares_.find(tenant);
  return found == shares_.end() ? TenantShare{} : found->second;
}

// The same part of what a tenant may have as of the whole pool: it must always have room to work in.
std::int64_t Engine::most_pinned(std::uint32_t tenant) const {
  const double most = std::min(share_of(tenant).most, 1.0) * static_cast<double>(cache_.memory_bytes());
  return static_cast<std::int64_t>(config_.pinned_share * std::floor(most));
}

void Engine::set_share(std::uint32_t tenant, TenantShare share) {
  {
    const std::lock_guard lock(shares_mutex_);
    shares_[tenant] = share;
  }
  cache_.set_share(tenant, share);
  scheduler_.set_weight(tenant, share.weight);
}

void Engine::warm_public_texts() {
  CHECK(idle());
  if (!cache_.shares(0)) return;  // nothing of them could be found
  for (const std::vector<TokenId>& text : config_.public_texts) {
    Request request;
    request.prompt = text;
    request.max_tokens = 1;
    request.breakpoints.push_back({static_cast<std::int64_t>(text.size()), std::chrono::hours(24 * 365 * 100)});
    request.origin = Request::Origin::kEngine;
    std::int64_t pinned = 0;
    submit(std::move(request), [&pinned](const Update& update) { pinned = update.record->pinned_tokens; });
    run();
    if (pinned > 0 || std::ssize(text) < config_.block_tokens) continue;
    throw Error(Error::Kind::kCapacity,
                {fmt::format("a public text of {} tokens has no room to stay in", text.size()), "--public-prefix",
                 fmt::format("raise --kv-memory: all of them may take {:.0f}% of it", 100 * config_.pinned_share)});
  }
  public_bytes_ = cache_.held_page_bytes();
}
void Engine::cancel_all() {
  for (const RequestId id : scheduler_.ids()) cancel(id);
}

RequestId Engine::fork(RequestId id, std::uint64_t seed, OnUpdate on_update) {
  break_up();
  if (flying_.in_the_air()) land();  // what is written there would be the copy's as well
  Sequence* from = scheduler_.find(id);
  CHECK(from != nullptr);
  Request request = from->request;
  request.sampling.seed = seed;
  auto copy = std::make_unique<Sequence>(new_id(), std::move(request), std::move(on_update));
  copy->use(from->policy);
  for (size_t i = from->request.prompt.size(); i < from->tokens.size(); ++i) {
    copy->tokens.push_back(from->tokens[i]);
    copy->sampler.accept(from->tokens[i]);
  }
  copy->record = from->record;
  const RequestId copy_id = copy->id;
  if (from->lease.valid() && cache_.shares(from->lease.policy())) {
    copy->lease = cache_.fork(from->lease);
    scheduler_.add_running(std::move(copy));
  } else {
    scheduler_.add(std::move(copy));
  }
  return copy_id;
}

void Engine::cancel(RequestId id) {
  if (Sequence* sequence = scheduler_.find(id)) {
    if (sequence->finish != FinishReason::kNone) return;
    if (sequence->forks.empty()) {
      sequence->finish = FinishReason::kCancelled;
      return;
    }
    // Others want answers to this prompt: the next of them takes it over.
    const OnUpdate listener = std::exchange(sequence->on_update, {});
    if (listener) listener({id, -1, FinishReason::kCancelled, nullptr, &sequence->record});
    sequence->answer_for(sequence->forks.front());
    sequence->on_update = std::move(sequence->forks.front().branch.on_update);
    sequence->forks.erase(sequence->forks.begin());
    return;
  }
  scheduler_.each_to_change([&](Sequence& sequence) {
    const auto fork = std::ranges::find(sequence.forks, id, &Sequence::Fork::id);
    if (fork == sequence.forks.end()) return;
    const OnUpdate listener = std::move(fork->branch.on_update);
    sequence.forks.erase(fork);
    if (listener) listener({id, -1, FinishReason::kCancelled, nullptr, &sequence.record});
  });
}

}  // namespace kvasir
