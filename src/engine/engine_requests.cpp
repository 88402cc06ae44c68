// How requests come, part and leave, and what tenants may have.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/step/failures.h"

namespace kvasir {

RequestId Engine::submit(Request request, OnUpdate on_update) {
  return submit(std::move(request), std::move(on_update), {}).front();
}

std::vector<RequestId> Engine::submit(Request request, OnUpdate on_update, std::vector<Branch> branches) {
  CheckedRequest checked = check(std::move(request));
  std::vector<RequestId> ids(1 + branches.size());
  for (RequestId& id : ids) id = new_id();
  start(ids, std::move(checked), std::move(on_update), std::move(branches));
  return ids;
}

void Engine::start(std::span<const RequestId> ids, CheckedRequest checked, OnUpdate on_update,
                   std::vector<Branch> branches) {
  CHECK(ids.size() == 1 + branches.size());
  Sequence* added = nullptr;
  try {
    const ServedModel& model = models_[checked.request.model];
    checked.request.breakpoints = places_to_keep(checked);
    const std::shared_ptr<const ResolvedPolicy> policy = policy_for(checked);
    auto sequence = std::make_unique<Sequence>(ids[0], std::move(checked.request), OnUpdate{});
    sequence->use(policies_.use(*model.model, *policy));
    sequence->context = model.context;
    sequence->submitted = checked.submitted;
    sequence->record.kv = sequence->policy->text;
    sequence->forks.reserve(branches.size());
    added = scheduler_.add(std::move(sequence));
  } catch (const std::exception& error) {  // whoever asked is waiting to be notified
    notify_failed(ids[0], on_update, error.what());
    for (size_t i = 0; i < branches.size(); ++i) notify_failed(ids[i + 1], branches[i].on_update, error.what());
    return;
  }
  added->on_update = std::move(on_update);
  for (size_t i = 0; i < branches.size(); ++i) added->forks.push_back({ids[i + 1], std::move(branches[i])});
}

// Where a window slides, the last whole block before a mark must be kept with what its window sees from there, and
// the block that the mark is in by itself. States are kept at ends of blocks alone: before the mark.
std::vector<Breakpoint> Engine::places_to_keep(const CheckedRequest& checked) const {
  const Request& request = checked.request;
  const auto keeps_all = [](const KvGroup& group) { return group.retention.full() && !group.keeps_state(); };
  if (std::ranges::all_of(checked.kv->groups, keeps_all)) {
    return request.breakpoints;
  }
  const bool states = std::ranges::any_of(checked.kv->groups, &KvGroup::keeps_state);
  const std::int64_t step = states ? state_step(checked.kv->groups, config_.block_tokens) : config_.block_tokens;
  std::vector<Breakpoint> out;
  for (const Breakpoint& mark : request.breakpoints) {
    const std::int64_t whole = mark.tokens / step * step;
    if (whole > 0 && (states || whole < mark.tokens)) out.push_back({whole, mark.keep});
    if (!states) out.push_back(mark);
  }
  return out;
}

// A replacement may be replaced in turn.
std::shared_ptr<const ResolvedPolicy> Engine::policy_for(const CheckedRequest& checked) const {
  std::shared_ptr<const ResolvedPolicy> policy = checked.kv;
  if (checked.request.origin == Request::Origin::kInternal) return policy;
  for (size_t i = 0; i < policies_.replacements(); ++i) {
    const std::shared_ptr<const ResolvedPolicy> by = policies_.replacement_of(*policy);
    if (by == nullptr || !checks_.has_room(checked.request, *by)) break;
    policy = by;
  }
  return policy;
}

void Engine::replace_policy(const KvPolicy& policy, const KvPolicy& by) {
  policies_.replace(policy, resolve_policy(0, *models_.front().model, by, config_.block_tokens));
}

void Engine::set_share(std::uint32_t tenant, TenantShare share) {
  shares_.set(tenant, share);
  cache_.set_share(tenant, share);
  scheduler_.set_weight(tenant, share.weight);
}

void Engine::warm_public_texts() {
  CHECK(idle());
  if (!cache_.shares(0)) return;  // nothing of them could be found
  if (!config_.public_texts.empty() && models_.front().model->config().reads_source()) {
    fail_usage("the model answers to a source, which is read whole: nothing of it begins like another",
               "--public-prefix", "leave it out");
  }
  for (const std::vector<TokenId>& text : config_.public_texts) {
    Request request;
    request.prompt = text;
    request.max_tokens = 1;
    request.breakpoints.push_back({static_cast<std::int64_t>(text.size()), std::chrono::hours(24 * 365 * 100)});
    request.origin = Request::Origin::kInternal;
    std::int64_t pinned = 0;
    submit(std::move(request), [&pinned](const Update& update) { pinned = update.record->pinned_tokens; });
    run();
    if (pinned > 0 || std::ssize(text) < config_.block_tokens) continue;
    throw Error(Error::Kind::kCapacity,
                {fmt::format("a public text of {} tokens has no room to stay in", text.size()), "--public-prefix",
                 fmt::format("raise --kv-memory: all of them may take {:.0f}% of it", 100 * config_.pinned_share)});
  }
  shares_.set_public_bytes(cache_.held_page_bytes());
}

void Engine::cancel_all() {
  for (const RequestId id : scheduler_.ids()) cancel(id);
}

RequestId Engine::fork(RequestId id, std::uint64_t seed, OnUpdate on_update) {
  if (pipeline_.in_flight()) {  // what is written there would be the copy's as well
    for (const ComputedRows& rows : pipeline_.collect_outputs()) finish_rows(rows);
  }
  Sequence* from = scheduler_.find(id);
  CHECK(from != nullptr);
  Request request = from->request;
  request.sampling.seed = seed;
  auto copy = std::make_unique<Sequence>(new_id(), std::move(request), std::move(on_update));
  copy->use(from->policy);
  copy->context = from->context;
  copy->submitted = from->submitted;
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

// The prompt is computed: each further answer samples its own first token from the same logits, and goes its own way.
void Engine::branch_off(Sequence& sequence) {
  if (sequence.fork_logits.empty()) return;
  const std::vector<float> logits = std::exchange(sequence.fork_logits, {});
  for (Sequence::Fork& fork : std::exchange(sequence.forks, {})) {
    try {
      Sequence& other = twin_of(sequence, fork);
      std::vector<float> own = logits;
      finish_rows({.sequence = &other, .logits = own});
    } catch (const std::exception& error) {
      notify_failed(fork.id, fork.branch.on_update, error.what());
    }
  }
}

// The fork has its listener until the scheduler has the twin.
Sequence& Engine::twin_of(const Sequence& sequence, Sequence::Fork& fork) {
  auto twin = std::make_unique<Sequence>(fork.id, sequence.request, OnUpdate{});
  twin->use(sequence.policy);
  twin->context = sequence.context;
  twin->submitted = sequence.submitted;
  twin->twin_of = sequence.id;
  twin->answer_for(fork);
  twin->record = sequence.record;
  twin->record.failure.clear();
  twin->record.fault = RequestRecord::Fault::kOurs;
  twin->record.computed_tokens = 0;
  twin->record.chunks.clear();
  twin->record.drafts.clear();
  const bool runs = !scheduler_.full() && cache_.shares(sequence.lease.policy());
  if (runs) twin->lease = cache_.fork(sequence.lease);
  Sequence* added = runs ? scheduler_.add_running(std::move(twin)) : scheduler_.add(std::move(twin));
  added->on_update = std::move(fork.branch.on_update);
  return *added;
}

}  // namespace kvasir
