#include "trace/replay.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"
#include "trace/idle_backend.h"
#include "trace/read_trace.h"
#include "trace/recorded_drafter.h"
#include "trace/turns.h"

namespace kvasir {
namespace {

// Where nobody measured it: what PCIe and memory of some years ago do.
constexpr double kSwapBytesPerSecond = 4e9;

// A trace has whole microseconds: what came at the end of a step came then.
constexpr double kResolution = 0.5e-6;

// Its text is known from when it comes to when it is over.
struct RunningRequest {
  const TracedRequest* traced = nullptr;
  double came = 0;
  std::vector<TokenId> tokens;
  std::int64_t answered = 0;
  double first_token = 0;  // seconds after it came; 0: none yet
};

class Replay {
 public:
  Replay(const RequestTrace& trace, const ReplayPlan& plan)
      : trace_(trace),
        rate_(plan.rate),
        costs_(plan.costs),
        backend_({clock_, costs_, plan.costs.swap_bytes_per_second.value_or(kSwapBytesPerSecond), plan.samples,
                  [this](const SampleRule& rule) { return next_token(rule); }}),
        model_(backend_, plan.spec, plan.engine.scheduler.max_batch_tokens),
        engine_(backend_, model_, with_clock(plan.engine)),
        drafter_([this](std::uint64_t index) { return drafts_of(index); }),
        turns_(find_turns(trace)),
        next_turns_(trace.requests.size()) {
    if (std::ranges::any_of(trace.requests, [](const TracedRequest& one) { return drafted(one) > 0; })) {
      engine_.use_drafter(&drafter_);
    }
    for (size_t i = 0; i < trace.requests.size(); ++i) {
      turns_[i] ? next_turns_[turns_[i]->index].push_back(i) : coming_.push({time_of(trace.requests[i]), i});
    }
    engine_.on_step([this](const StepTime&) { ++out_.steps; });
  }

  Replayed run() {
    while (!coming_.empty() || !engine_.idle()) {
      if (engine_.idle()) clock_.advance_to(coming_.top().first);
      submit_those_that_came();
      cancel_those_who_left();
      engine_.step();
    }
    std::ranges::sort(out_.foretold.queue_seconds);
    std::ranges::sort(out_.foretold.first_token_seconds);
    if (!trace_.requests.empty()) out_.foretold.seconds = last_end_ - time_of(trace_.requests.front());
    out_.scheduler = engine_.scheduler().counts();
    out_.evicted_blocks = engine_.cache().stats().evicted_blocks;
    out_.pool_bytes = static_cast<std::uint64_t>(engine_.cache().memory_bytes());
    return std::move(out_);
  }

 private:
  // Speculation and public texts need texts.
  EngineConfig with_clock(EngineConfig config) const {
    config.clock = std::shared_ptr<const TimeSource>(std::shared_ptr<const TimeSource>(), &clock_);
    config.costs.reset();
    config.speculation.drafters.clear();
    config.public_texts.clear();
    return config;
  }

  double time_of(const TracedRequest& request) const { return request.at / rate_; }

  TokenId next_token(const SampleRule& rule) const {
    const RunningRequest& request = running_.at(rule.seed);
    const auto at = static_cast<size_t>(rule.position);
    return at < request.tokens.size() ? request.tokens[at] : kEndOfAnswer;
  }

  Request request_of(const TracedRequest& traced, std::uint64_t index, const std::vector<TokenId>& tokens) const {
    Request out;
    out.prompt.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(traced.prompt_tokens));
    out.sampling.temperature = 0;
    out.sampling.seed = index;
    out.max_tokens = std::max<std::int64_t>(traced.max_tokens, 1);
    if (traced.finish == FinishReason::kLength) out.max_tokens = std::max<std::int64_t>(traced.answer_tokens, 1);
    out.stop_tokens = {kEndOfAnswer};
    out.breakpoints = traced.breakpoints;
    out.priority = traced.priority;
    out.tenant.id = traced.tenant;
    if (!traced.kv.empty()) out.kv = parse_kv_policy(traced.kv, "the trace");
    return out;
  }

  void submit_those_that_came() {
    while (!coming_.empty() && coming_.top().first <= clock_.now() + kResolution) {
      const auto [came, index] = coming_.top();
      coming_.pop();
      submit(index, came);
    }
  }

  // Whoever goes on where this one's answer ended comes after that.
  void end_turn(std::uint64_t index) {
    for (const size_t next : std::exchange(next_turns_[index], {})) {
      coming_.push({clock_.now() + turns_[next]->think_seconds, next});
    }
  }

  void submit(std::uint64_t index, double came) {
    const TracedRequest& traced = trace_.requests[index];
    const std::int64_t context = engine_.context();
    if (traced.prompt_tokens >= context) {
      ++out_.foretold.refused;
      return end_turn(index);
    }
    RunningRequest& running = running_[index];
    running = {&traced, came, tokens_of(traced, index, context), 0, 0};
    set_share(traced);
    try {
      const RequestId id = engine_.submit(request_of(traced, index, running.tokens),
                                          [this, index](const Update& update) { hear(index, update); });
      const bool leaves = traced.answer_tokens == 0 && traced.finish == FinishReason::kCancelled && traced.measured;
      if (leaves) leaving_.push({running.came + traced.measured->seconds, id});
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kCapacity) throw;
      ++out_.foretold.refused;
      running_.erase(index);
      end_turn(index);
    }
  }

  void set_share(const TracedRequest& traced) {
    const TenantShare share = traced.share.value_or(TenantShare{});
    if (share != engine_.share_of(traced.tenant)) engine_.set_share(traced.tenant, share);
  }

  // Whoever went before there was a token goes at the same time again.
  void cancel_those_who_left() {
    for (; !leaving_.empty() && leaving_.top().first <= clock_.now(); leaving_.pop()) {
      engine_.cancel(leaving_.top().second);
    }
  }

  void hear(std::uint64_t index, const Update& update) {
    RunningRequest& running = running_.at(index);
    const TracedRequest& traced = *running.traced;
    if (update.token >= 0 && running.answered++ == 0) running.first_token = clock_.now() - running.came;
    if (update.finish != FinishReason::kNone) return count(running, *update.record, index);
    const bool ended_early = traced.finish == FinishReason::kCancelled || traced.finish == FinishReason::kFailed;
    if (ended_early && running.answered == traced.answer_tokens) engine_.cancel(update.id);
  }

  void count(const RunningRequest& running, const RequestRecord& record, std::uint64_t index) {
    RequestOutcomes& all = out_.foretold;
    ++all.requests;
    // A twin's prompt is its sibling's: it asked for nothing.
    if (running.traced->twin_of == 0 && record.computed_tokens > 0) {
      all.prompt_tokens += running.traced->prompt_tokens;
      all.reused_tokens += record.reuse.reused_tokens;
      all.queue_seconds.push_back(queue_seconds(running, record));
    }
    all.computed_tokens += record.computed_tokens;
    all.answer_tokens += running.answered;
    all.preemptions += record.preemptions;
    all.waits += std::ranges::count(record.pauses, Preemption::How::kWait, &Preemption::how);
    if (running.first_token > 0 && running.traced->twin_of == 0)
      all.first_token_seconds.push_back(running.first_token);
    last_end_ = std::max(last_end_, clock_.now());
    running_.erase(index);
    end_turn(index);
  }

  static std::int64_t drafted(const TracedRequest& request) {
    return request.measured ? request.measured->drafted : 0;
  }

  RecordedDrafter::Drafts drafts_of(std::uint64_t index) const {
    const RunningRequest& running = running_.at(index);
    if (drafted(*running.traced) == 0) return {};
    const MeasuredRequest& measured = *running.traced->measured;
    return {running.traced->answer_tokens, measured.drafted, measured.accepted, running.tokens};
  }

  // The engine heard of it between two steps, when it may have waited for a while.
  double queue_seconds(const RunningRequest& running, const RequestRecord& record) const {
    return running.first_token > 0 ? record.queue_seconds + running.first_token - record.first_token_seconds
                                   : record.queue_seconds;
  }

  const RequestTrace& trace_;
  double rate_;
  CountedTime clock_;
  StepCostModel costs_;
  IdleBackend backend_;
  IdleModel model_;
  Engine engine_;
  RecordedDrafter drafter_;
  std::vector<std::optional<EarlierTurn>> turns_;  // by request: what it comes after, …
  std::vector<std::vector<size_t>> next_turns_;    // … and those that come after it, until it is over
  using Coming = std::pair<double, std::uint64_t>;
  std::priority_queue<Coming, std::vector<Coming>, std::greater<>> coming_;
  std::unordered_map<std::uint64_t, RunningRequest> running_;  // by its place in the trace
  using Leaving = std::pair<double, RequestId>;
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving_;
  double last_end_ = 0;
  Replayed out_;
};

}  // namespace

double quantile(const std::vector<double>& ascending, double share) {
  if (ascending.empty()) return 0;
  const auto rank = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(ascending.size()))) - 1;
  return ascending[static_cast<size_t>(std::clamp<std::int64_t>(rank, 0, std::ssize(ascending) - 1))];
}

Replayed replay(const RequestTrace& trace, const ReplayPlan& plan) { return Replay(trace, plan).run(); }

std::optional<RequestOutcomes> measured_outcomes(const RequestTrace& trace) {
  RequestOutcomes out;
  double last_end = 0;
  for (const TracedRequest& request : trace.requests) {
    if (!request.measured) return std::nullopt;
    const MeasuredRequest& measured = *request.measured;
    ++out.requests;
    if (request.twin_of == 0 && measured.computed_tokens > 0) {
      out.prompt_tokens += request.prompt_tokens;
      out.reused_tokens += measured.reused_tokens;
      out.queue_seconds.push_back(measured.queue_seconds);
      if (measured.first_token_seconds > 0) out.first_token_seconds.push_back(measured.first_token_seconds);
    }
    out.computed_tokens += measured.computed_tokens;
    out.answer_tokens += request.answer_tokens;
    out.preemptions += measured.preemptions;
    out.waits += measured.waits;
    last_end = std::max(last_end, request.at + measured.seconds);
  }
  if (out.requests == 0) return std::nullopt;
  out.seconds = last_end - trace.requests.front().at;
  std::ranges::sort(out.queue_seconds);
  std::ranges::sort(out.first_token_seconds);
  return out;
}

}  // namespace kvasir
