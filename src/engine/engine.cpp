#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/draft/head_drafter.h"
#include "engine/draft/model_drafter.h"
#include "engine/step/failures.h"
#include "model/draft_head.h"

namespace kvasir {
namespace {

std::vector<EngineModel> all_models(Model& first, const KvPolicy& policy, std::span<const EngineModel> more) {
  std::vector<EngineModel> out{{&first, policy}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

struct DraftModelParts {
  Backend& backend;
  std::span<const ServedModel> models;
  KvCache& cache;
  KvStorage& storage;
  PolicyRegistry& policies;
};

std::unique_ptr<Drafter> make_pass_drafter(const DraftModelParts& parts, const SpeculationConfig& config) {
  const auto named = std::ranges::find_if(kPassDrafters, [&](std::string_view name) {
    return std::ranges::find(config.drafters, name) != config.drafters.end();
  });
  if (named == kPassDrafters.end()) return nullptr;
  CHECK(config.model < parts.models.size());
  const ServedModel& draft = parts.models[config.model];
  const ServedModel& target = parts.models.front();
  const std::shared_ptr<const ActivePolicy> policy = parts.policies.use(*draft.model, *draft.kv);
  if (*named != kModelDrafter) {
    CHECK(!draft.model->config().draft.none());
    return std::make_unique<HeadDrafter>(HeadDrafter::Parts{parts.backend, *draft.model, parts.cache, parts.storage,
                                                            policy, *named, config.tokens, draft.context,
                                                            target.model->max_rows()});
  }
  check_draft_model(draft.model->config(), "--draft");
  return std::make_unique<ModelDrafter>(ModelDrafter::Parts{parts.backend, *draft.model, parts.cache, parts.storage,
                                                            policy, draft.context, target.vocab()});
}

}  // namespace

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kFailed:
      return "failed";
    case FinishReason::kNone:
      break;
  }
  return "none";
}

Engine::Engine(Backend& backend, Model& model, EngineConfig config, std::span<const EngineModel> more)
    : Engine(backend, all_models(model, config.kv, more), std::move(config)) {}

Engine::Engine(Backend& backend, std::span<const EngineModel> models, EngineConfig&& config)
    : config_(resolve_config(std::move(config), models, backend)),
      models_(served_models(models, config_)),
      storage_(backend, pages_of(models, config_), config_.block_tokens),
      cache_(cache_config(models_.front(), backend, config_, pages_of(models, config_))),
      policies_(backend, *models_.front().kv, cache_, storage_),
      swap_(storage_, *config_.swap_bytes, *config_.clock),
      pins_(cache_, static_cast<std::int64_t>(config_.pinned_share * static_cast<double>(cache_.memory_bytes()))),
      scheduler_(config_.scheduler),
      shares_(cache_),
      checks_({config_, models_, cache_, shares_, backend}),
      costs_({*config_.clock, swap_, scheduler_}, config_.costs),
      speculator_({scheduler_, cache_, costs_}, config_.speculation,
                  make_pass_drafter({backend, models_, cache_, storage_, policies_}, config_.speculation)),
      masks_(scheduler_),
      acceptor_(listeners_, masks_),
      pipeline_({backend, models_, storage_, cache_, scheduler_, costs_, listeners_, speculator_, config_.mode}) {
  scheduler_.use(config_.mode == EngineConfig::Mode::kCached ? &swap_ : nullptr, &pins_);
}

void Engine::claim() {
  CHECK_THAT(!claimed_.exchange(true), "two EngineThreads were given one engine; give each an engine of its own");
}

const KvCache& Engine::cache() {
  pipeline_.flush();
  return cache_;
}

void Engine::watch_cache() {
  pipeline_.flush();
  cache_.watch();
}

void Engine::unwatch_cache() { cache_.unwatch(); }

CacheChanges Engine::take_cache_changes() {
  pipeline_.flush();
  return cache_.take_changes();
}

const Scheduler& Engine::scheduler() {
  pipeline_.flush();
  return scheduler_;
}

void Engine::run() {
  while (!idle()) step();
}

void Engine::step() {
  begin_step();
  if (!pipeline_.in_flight()) {
    const std::span<const ScheduledTokens> scheduled = schedule();
    if (scheduled.empty()) return masks_.wait();
    pipeline_.submit(scheduled);  // run; and sample, where the device can
  }
  pipeline_.schedule_ahead();
  for (const ComputedRows& rows : pipeline_.collect_outputs()) finish_rows(rows);  // sample, accept, commit, notify
  speculator_.end_step();
  finish_done();
  if (idle()) pipeline_.discard_in_flight();
}

void Engine::finish_rows(const ComputedRows& rows) {
  const StepOutput output = acceptor_.accept(rows);  // what was not sampled on the device is sampled here
  commit(rows, output);
  speculator_.verified(rows, output);
  branch_off(*rows.sequence);
  notify(output);
}

// Who waited for a mask has its next token now, if its form can be known.
void Engine::begin_step() {
  const double now = costs_.now();
  cache_.set_clock(now);
  pins_.expire(now);
  for (Sequence* sequence : masks_.begin_step()) {
    std::vector<float> logits;
    try {
      logits = masks_.take_logits(*sequence);
    } catch (const std::exception& error) {
      fail_for(*sequence, error);
      continue;
    }
    finish_rows({.sequence = sequence, .logits = logits});
  }
}

std::span<const ScheduledTokens> Engine::schedule() {
  finish_done();
  if (config_.mode == EngineConfig::Mode::kCached) speculator_.propose();
  const std::vector<ScheduledTokens>& scheduled = scheduler_.schedule(cache_);
  for (const auto& [id, label, preemption] : scheduler_.take_preemptions()) {
    if (listeners_.on_preemption) listeners_.on_preemption(label.empty() ? std::to_string(id) : label, preemption);
  }
  return scheduled;
}

// The rows that were computed of accepted tokens belong to the cache now. Those of a draft that was wrong lie behind
// the lease's end, where the next ones are written.
void Engine::commit(const ComputedRows& rows, const StepOutput& output) {
  Sequence& sequence = *rows.sequence;
  if (rows.rows > 0 && goes_back(rows, output)) {
    sequence.record.computed_tokens += rows.rows;
    ++sequence.record.steps;
  } else if (rows.rows > 0) {
    const Position done = sequence.lease.length();
    const std::int64_t own = rows.rows - static_cast<std::int64_t>(rows.draft.size());
    gather_accepted(cache_, storage_, sequence.lease, own, output.path);
    RequestRecord& record = sequence.record;
    const std::int64_t uncomputed = sequence.num_uncomputed_tokens() - std::ssize(output.tokens);
    const bool of_text = done < std::ssize(sequence.request.prompt) || record.preemptions > 0;
    if (uncomputed > 1 && of_text && record.chunks.size() < RequestRecord::kMostChunks) {
      record.chunks.push_back({done, rows.rows, costs_.step_seconds()});
    }
    record.computed_tokens += sequence.source_rows();
    cache_.commit_source(sequence.lease);
    cache_.commit(
        sequence.lease,
        std::span(sequence.tokens).subspan(static_cast<size_t>(done), static_cast<size_t>(own + output.verified())));
    record.computed_tokens += rows.rows;
    ++record.steps;
    if (sequence.rows && sequence.eviction->is_point(sequence.lease.length())) {
      sequence.rows->evict(cache_, storage_, sequence.lease);
      record.evicted_tokens = sequence.rows->evicted(sequence.lease);
    }
    keep_state(sequence);
    pin(sequence, PrefixPins::Moment::kRunning);
  }
  const bool recomputes = config_.mode == EngineConfig::Mode::kRecompute;
  if (recomputes && !output.tokens.empty() && sequence.lease.valid()) cache_.truncate(sequence.lease, 0);
}

// A state that has seen a wrong token is left for the one before it. What was right is computed again, with what
// follows: it is some rows more in the next step.
bool Engine::goes_back(const ComputedRows& rows, const StepOutput& output) {
  Sequence& sequence = *rows.sequence;
  if (sequence.drafts == nullptr || !sequence.drafts->before.valid()) return false;
  KvLease before = std::exchange(sequence.drafts->before, KvLease());
  if (output.path.size() == rows.draft.size() || !sequence.lease.valid()) return false;
  cache_.go_back(sequence.lease, std::move(before));
  return true;
}

// At its marks; and, while it answers, at the last end of a block, which the next takes the place of: so that the
// answer is found with what is asked next.
void Engine::keep_state(Sequence& sequence) {
  const Position length = sequence.lease.length();
  if (std::ranges::find(sequence.state_marks, length) != sequence.state_marks.end()) {
    cache_.keep_state(sequence.lease, KvCache::Stay::kUntilEvicted);
  } else if (scheduler_.state_budget_of(sequence) > 0 && sequence.num_uncomputed_tokens() <= 1) {
    cache_.keep_state(sequence.lease, KvCache::Stay::kUntilNext);
  }
}

void Engine::pin(Sequence& sequence, PrefixPins::Moment moment) {
  if (!sequence.has_pins_to_come() || config_.mode == EngineConfig::Mode::kRecompute) return;
  // The same part of what a tenant may have as of the whole pool: it must always have room to work in.
  const TenantShare share = shares_.of(sequence.request.tenant.id);
  const double most = std::floor(std::min(share.most, 1.0) * static_cast<double>(cache_.memory_bytes()));
  pins_.pin_breakpoints(cache_, sequence,
                        {costs_.now(), moment, static_cast<std::int64_t>(config_.pinned_share * most)});
}

// The last token travels with the reason why it is the last. Who is notified may cancel: no token comes after that.
void Engine::notify(const StepOutput& output) const {
  if (output.tokens.empty()) return;
  Sequence& sequence = *output.sequence;
  RequestRecord& record = sequence.record;
  if (record.first_token_seconds == 0) record.first_token_seconds = costs_.now() - sequence.submitted;
  const FinishReason ended = std::exchange(sequence.finish, FinishReason::kNone);
  const size_t count = output.tokens.size() - (ended == FinishReason::kLength ? 1 : 0);
  for (size_t i = 0; i < count && sequence.finish == FinishReason::kNone; ++i) {
    notify(sequence, output.tokens[i], i < sequence.logprobs.size() ? &sequence.logprobs[i] : nullptr);
  }
  if (sequence.finish == FinishReason::kNone) sequence.finish = ended;
}

void Engine::notify(const Sequence& sequence, TokenId token, const TokenLogprobs* logprobs) const {
  if (sequence.on_update) sequence.on_update({sequence.id, token, sequence.finish, logprobs, &sequence.record});
}

void Engine::finish_done() {
  for (const std::unique_ptr<Sequence>& sequence : scheduler_.take_finished()) {
    pipeline_.forget(*sequence);
    masks_.forget(*sequence);
    const bool by_itself = sequence->finish == FinishReason::kStop || sequence->finish == FinishReason::kLength;
    const bool of_text = sequence->request.source.empty();  // tokens say nothing of a source
    if (listeners_.on_finished && by_itself && of_text && sequence->request.origin == Request::Origin::kClient) {
      listeners_.on_finished({sequence->tokens, std::ssize(sequence->request.prompt), sequence->policy->policy,
                              sequence->request.tenant});
    }
    if (by_itself && sequence->request.origin == Request::Origin::kClient) speculator_.finished(*sequence);
    pin(*sequence, PrefixPins::Moment::kEnded);
    const bool has_last = sequence->finish == FinishReason::kLength;
    notify(*sequence, has_last ? sequence->tokens.back() : -1,
           has_last && !sequence->logprobs.empty() ? &sequence->logprobs.back() : nullptr);
    if (listeners_.on_end && sequence->request.origin == Request::Origin::kClient) listeners_.on_end(*sequence);
    // It ended before its prompt was computed: so did the other answers to it.
    for (const Sequence::Fork& fork : sequence->forks) {
      if (fork.branch.on_update) fork.branch.on_update({fork.id, -1, sequence->finish, nullptr, &sequence->record});
    }
  }
}

void Engine::fail_step(const std::string& why) {
  pipeline_.discard_in_flight();
  bool ran = false;
  scheduler_.each_to_change([&](Sequence& sequence) {
    if (!sequence.lease.valid()) return;
    ran = true;
    fail(sequence, why);
  });
  if (!ran) scheduler_.each_to_change([&](Sequence& sequence) { fail(sequence, why); });
  finish_done();
}

}  // namespace kvasir
