#include "trace/trace_recorder.h"

#include <algorithm>
#include <utility>

#include "engine/sequence.h"
#include "trace/trace_lines.h"

namespace kvasir {
namespace {

// All that the K and V of a sequence's tokens depend on besides them, but the policy, and whose they are.
std::string space_of(const Request& request) {
  std::string out(reinterpret_cast<const char*>(&request.tenant.id), sizeof request.tenant.id);
  out.append(reinterpret_cast<const char*>(request.tenant.secret.bytes.data()), request.tenant.secret.bytes.size());
  if (request.prefix_key) {
    out.append(reinterpret_cast<const char*>(request.prefix_key->bytes.data()), request.prefix_key->bytes.size());
  }
  return out;
}

}  // namespace

TraceConfig trace_config(const Engine& engine) {
  TraceConfig out;
  out.engine = engine.config();
  return out;
}

TraceRecorder::TraceRecorder(Engine& engine, const Key256& secret, Sink sink)
    : engine_(engine), tags_(secret), sink_(std::move(sink)), began_(engine.now()), steps_written_(began_) {
  engine.on_step([this](const StepTime& step) { add_step(step); });
  engine.on_end([this](const Sequence& sequence) { add_request(sequence); });
}

TraceRecorder::~TraceRecorder() {
  engine_.on_step({});
  engine_.on_end({});
  try {
    write_steps();
  } catch (const std::exception&) {
    // There is no memory for a last line.
  }
}

void TraceRecorder::add_step(const StepTime& step) noexcept {
  try {
    steps_.add(step);
    if (engine_.now() - steps_written_ >= kStepsEvery) write_steps();
  } catch (const std::exception&) {
    ++missed_;
  }
}

void TraceRecorder::write_steps() {
  steps_written_ = engine_.now();
  if (steps_.empty()) return;
  steps_.swap_bytes_per_second = engine_.swap().bytes_per_second();
  write(trace_line(steps_));
  steps_.clear();
}

void TraceRecorder::write(std::string line) {
  if (missed_ > 0) sink_(lost_line(std::exchange(missed_, 0)));
  sink_(std::move(line));
}

void TraceRecorder::add_request(const Sequence& sequence) noexcept {
  try {
    write(line_of(sequence));
  } catch (const std::exception&) {
    ++missed_;
  }
}

std::string TraceRecorder::line_of(const Sequence& sequence) const {
  const Request& request = sequence.request;
  if (!request.source.empty()) return R"({"source":)" + std::to_string(request.source.size()) + "}";
  const RequestRecord& record = sequence.record;
  TracedRequest out;
  out.at = std::max(sequence.submitted - began_, 0.0);
  out.id = sequence.id;
  out.twin_of = sequence.twin_of;
  out.prompt_tokens = std::ssize(request.prompt);
  out.answer_tokens = sequence.num_output_tokens();
  out.max_tokens = request.max_tokens;
  out.finish = sequence.finish;
  out.tags = tags_.of(sequence.tokens, space_of(request));
  out.tenant = request.tenant.id;
  if (const TenantShare share = engine_.share_of(request.tenant.id); share != TenantShare{}) out.share = share;
  if (request.kv) out.kv = to_text(*request.kv);
  out.breakpoints = request.breakpoints;
  out.priority = request.priority;
  MeasuredRequest measured;
  measured.reused_tokens = record.reuse.reused_tokens;
  measured.computed_tokens = record.computed_tokens;
  measured.preemptions = record.preemptions;
  measured.waits = std::ranges::count(record.pauses, Preemption::How::kWait, &Preemption::how);
  for (const DraftRecord& drafts : record.drafts) {
    measured.drafted += drafts.proposed;
    measured.accepted += drafts.accepted;
  }
  measured.accepted = std::min(measured.accepted, out.answer_tokens);
  measured.queue_seconds = record.queue_seconds;
  measured.first_token_seconds = record.first_token_seconds;
  measured.seconds = engine_.now() - sequence.submitted;
  out.measured = measured;
  return trace_line(out);
}

}  // namespace kvasir
