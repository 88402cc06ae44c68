#include "engine/engine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "engine/batch_builder.h"
#include "engine/engine_setup.h"

namespace kvasir {

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

Engine::Engine(Backend& backend, Model& model, EngineConfig config)
    : backend_(backend),
      model_(model),
      config_(completed(std::move(config), model, backend)),
      storage_(backend, pages_of(model, config_), config_.block_tokens),
      cache_(cache_config(model, backend, config_)),
      policies_(backend, model, config_.kv, cache_, storage_),
      swap_(storage_, *config_.swap_bytes),
      pins_(cache_, static_cast<std::int64_t>(config_.pinned_share * static_cast<double>(cache_.memory_bytes()))),
      scheduler_(config_.scheduler),
      pace_(config_.pace.value_or(Pace{})) {
  scheduler_.use(config_.mode == EngineConfig::Mode::kCached ? &swap_ : nullptr, &pins_);
  scheduler_.set_pace(pace_);
}

Engine::~Engine() {
  try {
    abandon();
  } catch (const std::exception&) {  // a device that failed has nothing more to say
    flying_.ticket = kNoDraw;
  }
}

double Engine::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

void Engine::claim() {
  CHECK_THAT(!claimed_.exchange(true), "two EngineThreads were given one engine; give each an engine of its own");
}

void Engine::run() {
  while (!idle()) step();
}

void Engine::step() {
  cache_.set_clock(now());
  pins_.expire(now());
  begin_masks();
  if (!flying_.in_the_air() && !launch()) return;
  fly_ahead();
  land();
  finish_done();
  if (idle()) abandon();
}

// The next step as the scheduler plans it. True: its tokens are on their way; else all of it is done.
bool Engine::launch() {
  finish_done();
  const std::vector<PlannedRows>& plan = scheduler_.plan(cache_);
  for (const auto& [id, label, pause] : scheduler_.take_pauses()) {
    if (on_pause_) on_pause_(label.empty() ? std::to_string(id) : label, pause);
  }
  if (plan.empty()) {
    wait_for_masks();
    return false;
  }
  const double began = now();
  const Matrix logits = enqueue(plan);
  if (take_off(plan, logits, flying_)) {
    flying_.began = began;
    return true;
  }
  logits_.resize(static_cast<size_t>(logits.cols) * static_cast<size_t>(logits.rows));
  backend_.download(std::as_writable_bytes(std::span(logits_)), reinterpret_cast<const std::byte*>(logits.data));
  measure(batch_.rows(), now() - began);
  read_logits(plan);
  finish_done();
  return false;
}

void Engine::read_logits(const std::vector<PlannedRows>& plan) {
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  size_t row = 0;
  for (const PlannedRows& planned : plan) {
    const bool caught_up = planned.rows == planned.sequence->pending();
    const auto rows = static_cast<size_t>(logit_rows_of(planned));
    advance(*planned.sequence, planned.rows);
    const size_t first = std::exchange(row, row + rows);
    const std::span<float> logits = std::span(logits_).subspan(vocab * first, vocab * rows);
    show_scored(*planned.sequence, caught_up ? logits.first(logits.size() - vocab) : logits);
    if (!caught_up) continue;
    branch_off(*planned.sequence, logits.last(vocab));
    choose_or_fail(*planned.sequence, {logits.last(vocab), {}});
  }
}

// Rows of a prompt that is scored, but for the last: that one is shown when its token is chosen.
void Engine::show_scored(const Sequence& sequence, std::span<const float> logits) const {
  if (!observer_ || sequence.finish != FinishReason::kNone) return;
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  const auto rows = static_cast<Position>(logits.size() / vocab);
  const bool caught_up = sequence.pending() == 0;
  const Position first = sequence.lease.length() - rows + (caught_up ? 0 : 1);
  for (Position i = 0; i < rows; ++i) {
    observer_(sequence.id, first + i, logits.subspan(vocab * static_cast<size_t>(i), vocab));
  }
}

Matrix Engine::enqueue(const std::vector<PlannedRows>& plan) {
  for (const PlannedRows& planned : plan) watch_rows(*planned.sequence);
  build_batch(plan, cache_, batch_);
  return run_model();
}

Matrix Engine::run_model() {
  for (const BlockCopy& copy : cache_.take_copies()) storage_.copy_block(copy.group, copy.from, copy.to);
  const Matrix logits = model_.forward(batch_, storage_);
  CHECK(logits.cols == model_.config().vocab || logits.rows == 0);
  return logits;
}

// Running averages, for estimates. The first step says more than no step.
void Engine::measure(int rows, double seconds) {
  constexpr double kNew = 0.1;
  constexpr int kManyRows = 8;  // fewer say nothing of what a prompt's token costs
  step_seconds_ = seconds;
  if (config_.pace) return;
  const auto blend = [&](double& average, double value, std::int64_t& seen) {
    average = seen++ == 0 ? value : average + kNew * (value - average);
  };
  blend(pace_.step_seconds, seconds, steps_measured_);
  if (rows >= kManyRows) blend(pace_.token_seconds, seconds / rows, prompts_measured_);
  pace_.swap_bytes_per_second = swap_.bytes_per_second().value_or(pace_.swap_bytes_per_second);
  scheduler_.set_pace(pace_);
}

// Whoever begins, for the first time or again, begins without any rows.
void Engine::watch_rows(Sequence& sequence) {
  if (!sequence.eviction || sequence.lease.length() > 0) return;
  const auto longest =
      std::min(static_cast<Position>(sequence.request.prompt.size()) + sequence.request.max_tokens, config_.context);
  sequence.rows = std::make_unique<SequenceRows>(
      backend_, *sequence.eviction, SequenceRows::Shape{sequence.policy->groups, model_.config().layers, longest});
}

// The rows are computed: they belong to the cache now.
void Engine::advance(Sequence& sequence, int rows) {
  const Position done = sequence.lease.length();
  RequestRecord& record = sequence.record;
  if (sequence.pending() > 1 && record.chunks.size() < RequestRecord::kMostChunks) {
    record.chunks.push_back({done, rows, step_seconds_});
  }
  cache_.commit(sequence.lease,
                std::span(sequence.tokens).subspan(static_cast<size_t>(done), static_cast<size_t>(rows)));
  record.computed_tokens += rows;
  ++record.steps;
  if (sequence.rows && sequence.eviction->is_point(sequence.lease.length())) {
    sequence.rows->evict(cache_, storage_, sequence.lease);
    record.evicted_tokens = sequence.rows->evicted(sequence.lease);
  }
  pin(sequence, PinMoment::kRunning);
}

// Breakpoints whose last block is full, so that it can be found; at the end, whatever there is.
void Engine::pin(Sequence& sequence, PinMoment moment) {
  const std::vector<Breakpoint>& marks = sequence.request.breakpoints;
  if (!sequence.lease.valid() || !cache_.shares(sequence.lease.policy())) return;
  if (config_.mode == EngineConfig::Mode::kRecompute) return;
  for (; sequence.pinned_breakpoints < marks.size(); ++sequence.pinned_breakpoints) {
    const Breakpoint& mark = marks[sequence.pinned_breakpoints];
    const Position end = (mark.tokens + config_.block_tokens - 1) / config_.block_tokens * config_.block_tokens;
    if (moment == PinMoment::kRunning && sequence.lease.length() < end) return;
    const double expires = now() + std::chrono::duration<double>(mark.keep).count();
    const auto yields = sequence.request.origin == Request::Origin::kEngine ? PinBoard::Yields::kNever
                                                                            : PinBoard::Yields::kToLoneRequests;
    if (pins_.hold(cache_, sequence.lease, {mark.tokens, expires, most_pinned(sequence.request.tenant.id), yields})) {
      sequence.record.pinned_tokens = std::max(sequence.record.pinned_tokens, mark.tokens);
    }
  }
}

// The prompt is computed: each further answer draws its own first token from the same logits, and goes its own way.
void Engine::branch_off(Sequence& sequence, std::span<const float> logits) {
  for (Sequence::Fork& fork : std::exchange(sequence.forks, {})) {
    try {
      Sequence& other = twin_of(sequence, fork);
      std::vector<float> own(logits.begin(), logits.end());
      choose_or_fail(other, {own, {}});
    } catch (const std::exception& error) {
      tell_failed(fork.id, fork.branch.on_update, error.what());
    }
  }
}

// The fork has its listener until the scheduler has the twin.
Sequence& Engine::twin_of(const Sequence& sequence, Sequence::Fork& fork) {
  auto twin = std::make_unique<Sequence>(fork.id, sequence.request, OnUpdate{});
  twin->use(sequence.policy);
  twin->answer_for(fork);
  twin->record = sequence.record;
  twin->record.computed_tokens = 0;
  twin->record.chunks.clear();
  const bool runs = !scheduler_.full() && cache_.shares(sequence.lease.policy());
  if (runs) twin->lease = cache_.fork(sequence.lease);
  Sequence* added = runs ? scheduler_.add_running(std::move(twin)) : scheduler_.add(std::move(twin));
  added->on_update = std::move(fork.branch.on_update);
  return *added;
}

void Engine::choose_or_fail(Sequence& sequence, const NextRow& row) {
  try {
    choose(sequence, row);
  } catch (const Error& error) {  // one request's trouble is no other's
    fail_for(sequence, error);
  }
}

// The next token, and its probabilities where they are asked for: of the model's own logits, before anything else.
TokenId Engine::draw(Sequence& sequence, const NextRow& row, Position position) {
  if (row.drawn) {
    if (*row.drawn < 0) fail_on_logits();
    return *row.drawn;
  }
  const std::span<float> logits = row.logits;
  const Request& request = sequence.request;
  std::optional<LogprobTable> table;
  std::vector<float> own;
  if (request.logprobs) {
    check_logits(logits);
    table.emplace(logits, *request.logprobs);
    own.assign(logits.begin(), logits.end());
  }
  // A form that is complete must end: it goes before the wish for more tokens.
  if (sequence.answered() < request.min_tokens && !request.constraint) {
    for (const TokenId stop : request.stop_tokens) {
      if (stop >= 0 && static_cast<size_t>(stop) < logits.size())
        logits[static_cast<size_t>(stop)] = -std::numeric_limits<float>::infinity();
    }
  }
  const TokenId token = sequence.sampler.sample(logits, position);
  if (table) sequence.logprobs = table->of(own[static_cast<size_t>(token)]);
  return token;
}

void Engine::choose(Sequence& sequence, const NextRow& row) {
  if (sequence.finish != FinishReason::kNone) return;  // cancelled while it ran
  if (!row.drawn && !mask_is_ready(sequence, row.logits)) return;
  const auto position = static_cast<Position>(sequence.tokens.size());
  if (observer_) observer_(sequence.id, position, row.logits);
  const TokenId token = draw(sequence, row, position);
  if (std::ranges::find(sequence.request.stop_tokens, token) != sequence.request.stop_tokens.end()) {
    sequence.finish = FinishReason::kStop;
    return;
  }
  sequence.sampler.accept(token);
  if (sequence.sampler.constraint() != nullptr && sequence.sampler.constraint()->ended()) {
    sequence.finish = FinishReason::kStop;  // nothing may follow, whatever the request says of stop tokens
    return;
  }
  sequence.tokens.push_back(token);
  const bool full = static_cast<std::int64_t>(sequence.tokens.size()) >= config_.context;
  if (full || sequence.answered() >= sequence.request.max_tokens) sequence.finish = FinishReason::kLength;
  if (config_.mode == EngineConfig::Mode::kRecompute && sequence.lease.valid()) cache_.truncate(sequence.lease, 0);
  if (sequence.finish == FinishReason::kNone) tell(sequence, token);
}

// The last token travels with the reason why it is the last.
void Engine::finish_done() {
  for (const std::unique_ptr<Sequence>& sequence : scheduler_.take_finished()) {
    if (flying_.forget(*sequence)) break_up();
    std::erase(parked_, sequence.get());
    const bool by_itself = sequence->finish == FinishReason::kStop || sequence->finish == FinishReason::kLength;
    if (on_finished_ && by_itself && sequence->request.origin == Request::Origin::kClient) {
      on_finished_({sequence->tokens, std::ssize(sequence->request.prompt), sequence->policy->policy,
                    sequence->request.tenant});
    }
    pin(*sequence, PinMoment::kEnded);
    tell(*sequence, sequence->finish == FinishReason::kLength ? sequence->tokens.back() : -1);
    // It ended before its prompt was computed: so did the other answers to it.
    for (const Sequence::Fork& fork : sequence->forks) {
      if (fork.branch.on_update) fork.branch.on_update({fork.id, -1, sequence->finish, nullptr, &sequence->record});
    }
  }
}

void Engine::tell(const Sequence& sequence, TokenId token) const {
  const TokenLogprobs* probabilities = token >= 0 && sequence.logprobs ? &*sequence.logprobs : nullptr;
  if (sequence.on_update) sequence.on_update({sequence.id, token, sequence.finish, probabilities, &sequence.record});
}

}  // namespace kvasir
