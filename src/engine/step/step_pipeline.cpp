#include "engine/step/step_pipeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/cache_bytes.h"
#include "engine/step/batch_builder.h"

namespace kvasir {
namespace {

// Each row's token, and all before it.
std::int64_t keys_of(const ScheduledTokens& one) {
  const std::int64_t before =
      one.sampled >= 0 ? std::ssize(one.sequence->tokens) : static_cast<std::int64_t>(one.sequence->lease.length());
  return one.rows * before + std::int64_t{one.rows} * (one.rows + 1) / 2;
}

}  // namespace

StepPipeline::StepPipeline(const Parts& parts)
    : p_(parts), batches_(parts.models.size()), steady_(parts.cache, parts.scheduler) {}

void StepPipeline::submit(std::span<const ScheduledTokens> scheduled) {
  CHECK(!current_.active && !steady_.active() && !scheduled.empty());
  current_.began = p_.costs.now();
  const std::span<const ScheduledTokens> all = by_model(scheduled);
  describe(all, current_);
  size_t downloaded = 0;
  for (std::span<const ScheduledTokens> rest = all; !rest.empty();) {
    const ModelId model = rest.front().sequence->model();
    const auto end =
        std::ranges::find_if(rest, [model](const ScheduledTokens& one) { return one.sequence->model() != model; });
    const std::span<const ScheduledTokens> part = rest.first(static_cast<size_t>(end - rest.begin()));
    rest = rest.subspan(part.size());
    const Matrix logits = run(part);
    if (part.size() == all.size() && sample_on_device(part, logits, current_)) return;
    downloaded = download(logits, all, downloaded);
  }
}

// Those of one model together, otherwise in their order.
std::span<const ScheduledTokens> StepPipeline::by_model(std::span<const ScheduledTokens> scheduled) {
  if (p_.models.size() == 1) return scheduled;
  scheduled_.assign(scheduled.begin(), scheduled.end());
  std::ranges::stable_sort(scheduled_, {}, [](const ScheduledTokens& one) { return one.sequence->model(); });
  return scheduled_;
}

void StepPipeline::describe(std::span<const ScheduledTokens> scheduled, InFlightStep& step) {
  step.ticket = kNoSample;
  step.scheduled.clear();
  step.rows = 0;
  step.keys = 0;
  step.samples = 0;
  step.steady = false;
  for (const ScheduledTokens& one : scheduled) {
    const int logit_rows = logit_rows_of(one);
    step.scheduled.push_back({one.sequence, one.rows, one.draft, logit_rows, step.samples, one.completes()});
    step.rows += one.rows;
    step.keys += keys_of(one);
    step.samples += logit_rows;
  }
  step.active = true;
}

Matrix StepPipeline::run(std::span<const ScheduledTokens> scheduled) {
  const ModelId model = scheduled.front().sequence->model();
  for (const ScheduledTokens& one : scheduled) track_scores(*one.sequence);
  const bool drafts = model == 0 && p_.mode == EngineConfig::Mode::kCached;
  if (drafts) p_.speculator.follow(scheduled, p_.models[model].model->max_rows());
  build_batch(scheduled, p_.cache, batches_[model].rows);
  if (drafts) p_.speculator.tap(scheduled, batches_[model].rows);
  return run_model(model);
}

Matrix StepPipeline::run_model(ModelId model) {
  copy_blocks(p_.cache, p_.storage);
  const Matrix logits = p_.models[model].model->forward(batches_[model].rows, p_.storage);
  CHECK(logits.cols == p_.models[model].vocab() || logits.rows == 0);
  return logits;
}

// Whoever begins, for the first time or again, begins without any rows.
void StepPipeline::track_scores(Sequence& sequence) const {
  if (!sequence.eviction || sequence.lease.length() > 0) return;
  const auto longest = std::min(static_cast<Position>(sequence.request.prompt.size()) + sequence.request.max_tokens,
                                static_cast<Position>(sequence.context));
  const int layers = p_.models[sequence.model()].model->config().layer_count();
  sequence.rows = std::make_unique<TokenRows>(p_.backend, *sequence.eviction,
                                              TokenRows::Shape{sequence.policy->groups, layers, longest});
}

// How many numbers of current_ are on the host then.
size_t StepPipeline::download(Matrix logits, std::span<const ScheduledTokens> all, size_t done) {
  if (done == 0) {
    size_t count = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto vocab = static_cast<size_t>(p_.models[all[i].sequence->model()].vocab());
      count += vocab * static_cast<size_t>(current_.scheduled[i].logit_rows);
    }
    logits_.resize(count);
  }
  const size_t count = static_cast<size_t>(logits.cols) * static_cast<size_t>(logits.rows);
  const std::span<float> to = std::span(logits_).subspan(done, count);
  p_.backend.download(std::as_writable_bytes(to), reinterpret_cast<const std::byte*>(logits.data));
  return done + count;
}

// Whether nobody but a rule looks at the logits of the sequence's token behind so many of its answer.
bool StepPipeline::may_sample_on_device(const Sequence& sequence, std::int64_t outputs) const {
  const Request& request = sequence.request;
  const bool may_stop = outputs >= request.min_tokens || request.stop_tokens.empty();
  return !p_.listeners.on_logits && !request.logprobs && !request.score_from && sequence.forks.empty() && may_stop;
}

// False, and nothing done: somebody needs logits, or the backend cannot sample.
bool StepPipeline::sample_on_device(std::span<const ScheduledTokens> scheduled, Matrix logits, InFlightStep& step) {
  if (logits.rows == 0) return false;
  step.model = scheduled.front().sequence->model();
  std::vector<SampleRule>& rules = batches_[step.model].rules;
  rules.clear();
  for (size_t i = 0; i < scheduled.size(); ++i) {
    if (step.scheduled[i].logit_rows == 0) continue;
    const Sequence& sequence = *scheduled[i].sequence;
    const int unknown = scheduled[i].sampled >= 0 ? 1 : 0;
    if (!may_sample_on_device(sequence, sequence.num_output_tokens() + unknown)) return false;
    for (int row = 0; row < step.scheduled[i].logit_rows; ++row) {
      const DraftView& draft = step.scheduled[i].draft;
      const int depth = row == 0 ? 0 : 1 + draft.depth(static_cast<size_t>(row) - 1);
      const auto rule = sequence.sampler.rule(std::ssize(sequence.tokens) + unknown + depth);
      if (!rule) return false;
      rules.push_back(*rule);
    }
  }
  step.ticket = p_.backend.sample(logits, rules);
  return step.sampled_on_device();
}

// Whether the next step has the sequences of this one alone, a token each.
bool StepPipeline::is_foreseen() {
  if (!current_.sampled_on_device() || current_.ticket != p_.backend.last_sample()) return false;
  if (!p_.scheduler.no_admission_pending()) return false;
  if ((current_.steady ? steady_.size() : current_.sequences()) != p_.scheduler.running()) return false;
  const auto has_draft = [](const InFlightStep::Rows& one) { return !one.draft.empty(); };
  return std::ranges::none_of(current_.scheduled, has_draft) && !p_.speculator.wants_to_draft();
}

void StepPipeline::schedule_ahead() {
  CHECK(current_.active && !next_.active);
  const bool foreseen = is_foreseen();
  if (foreseen && current_.steady && !p_.listeners.on_logits && steady_.can_continue()) return run_steady();
  leave_steady();
  if (!foreseen || p_.mode == EngineConfig::Mode::kRecompute || !foresee()) return;
  if (!p_.scheduler.reserve_ahead(p_.cache, scheduled_)) return;
  next_.began = p_.costs.now();
  describe(scheduled_, next_);
  CHECK(sample_on_device(scheduled_, run(scheduled_), next_));
  ++counts_.ahead;
  if (!steady_.enter(scheduled_)) return;
  next_.steady = true;
  next_.scheduled.clear();
}

// Who goes on after the step in flight, with the token that is sampled there. False: nobody, or it must be waited
// for.
bool StepPipeline::foresee() {
  scheduled_.clear();
  for (const InFlightStep::Rows& one : current_.scheduled) {
    if (one.sequence == nullptr) continue;
    if (one.rows != 1 || one.logit_rows != 1) return false;
    Sequence& sequence = *one.sequence;
    if (sequence.finish != FinishReason::kNone || sequence.eviction) return false;
    // A state that is ahead cannot be kept where it was, and a row too many would stay in it.
    if (p_.cache.has_states(sequence.policy_id())) return false;
    if (sequence.source_rows() > 0) return false;  // it would be read twice
    if (sequence.num_tokens_left() <= 1) continue;
    if (!may_sample_on_device(sequence, sequence.num_output_tokens() + 1) || !sequence.sampler.rule(0)) return false;
    scheduled_.push_back({&sequence, 1, {}, one.first});
  }
  return !scheduled_.empty();
}

// schedule_ahead() for a steady batch.
void StepPipeline::run_steady() {
  StepBatch& batch = batches_[current_.model];
  if (!steady_.advance(batch)) return leave_steady();
  next_.began = p_.costs.now();
  next_.ticket = p_.backend.sample(run_model(current_.model), batch.rules);
  CHECK(next_.sampled_on_device());
  next_.model = current_.model;
  next_.rows = current_.rows;
  next_.keys = current_.keys + current_.rows;
  next_.samples = current_.samples;
  next_.active = true;
  next_.steady = true;
  ++counts_.ahead;
  ++counts_.steady;
}

void StepPipeline::leave_steady() {
  if (!steady_.active()) return;
  steady_.leave(rows_);
  for (InFlightStep* step : {&current_, &next_}) {
    if (std::exchange(step->steady, false) && step->active) step->scheduled = rows_;
  }
}

std::span<const ComputedRows> StepPipeline::collect_outputs() {
  CHECK(current_.active);
  computed_.clear();
  sampled_.resize(current_.sampled_on_device() ? static_cast<size_t>(current_.samples) : 0);
  if (current_.sampled_on_device()) p_.backend.take_sampled(std::exchange(current_.ticket, kNoSample), sampled_);
  p_.costs.measure(current_.rows, current_.samples, current_.began);
  if (p_.listeners.on_step)
    p_.listeners.on_step({current_.rows, current_.samples, current_.keys, p_.costs.whole_seconds()});
  if (current_.steady && steady_.ends_nobody(sampled_)) {
    steady_.publish(sampled_);
  } else {
    if (current_.steady) leave_steady();
    list_computed(current_);
  }
  current_.active = false;
  std::swap(current_, next_);
  next_.scheduled.clear();
  if (!current_.active) leave_steady();
  return computed_;
}

void StepPipeline::list_computed(const InFlightStep& step) {
  size_t offset = 0;
  for (const InFlightStep::Rows& one : step.scheduled) {
    if (one.sequence == nullptr) continue;
    ComputedRows rows{one.sequence, one.rows, one.draft, {}, one.logit_rows, {}, one.completes};
    if (sampled_.empty()) {
      const size_t count =
          static_cast<size_t>(one.logit_rows) * static_cast<size_t>(p_.models[one.sequence->model()].vocab());
      rows.logits = std::span(logits_).subspan(std::exchange(offset, offset + count), count);
    } else {
      rows.sampled = std::span(sampled_).subspan(static_cast<size_t>(one.first), static_cast<size_t>(one.logit_rows));
    }
    computed_.push_back(rows);
  }
}

void StepPipeline::forget(const Sequence& sequence) {
  if (steady_.contains(sequence)) leave_steady();
  current_.forget(sequence);
}

void StepPipeline::discard_in_flight() noexcept {
  steady_.discard();
  for (InFlightStep* step : {&current_, &next_}) {
    try {
      sampled_.resize(static_cast<size_t>(step->samples));
      if (step->sampled_on_device()) p_.backend.take_sampled(std::exchange(step->ticket, kNoSample), sampled_);
    } catch (const std::exception&) {
      step->ticket = kNoSample;  // the device has failed, and will not write either
    }
    step->scheduled.clear();
    step->active = false;
    step->steady = false;
  }
}

}  // namespace kvasir
