#include "server/answer/answer_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/utf8.h"

namespace kvasir {
namespace {

std::string_view reason_name(FinishReason finish) {
  switch (finish) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kFailed:
      return "error";
    case FinishReason::kCancelled:
    case FinishReason::kNone:
      break;
  }
  return "abort";
}

ApiError shutting_down() {
  return {{.status = 503, .type = "unavailable_error", .retry_after_s = 1}, "the server is shutting down"};
}

ApiError too_long_to_send_whole() {
  return {{.status = 400, .param = "stream", .code = "reply_too_long"},
          fmt::format("the answers and their probabilities take more than {} MiB, which is the most that is sent "
                      "whole; ask for a stream, or for fewer answers, tokens or probabilities",
                      AnswerWork::kLongestWhole >> 20)};
}

ApiError failure_of(const Ending& ending) {
  if (ending.fault == RequestRecord::Fault::kRequest) return {{.status = 400}, ending.failure};
  return {{.status = 500, .type = "server_error"}, ending.failure};
}

// The nearest cached text goes on with what was thought before an answer, and the prompt with the answer itself.
void explain_reasoning(const ReuseReport& reuse, const Listener& to, OrderedJson& out) {
  const bool thoughts = std::ranges::find(to.openers, reuse.cached_token) != to.openers.end();
  if (reuse.stop != ReuseStop::kDiverged || !thoughts) return;
  const std::optional<ThoughtlessTurn> turn = turn_without_thoughts(to.messages, reuse.stopped_at);
  if (!turn) return;
  const std::int64_t again = std::max<std::int64_t>(turn->end - reuse.reused_tokens, 0);
  out["reasoning"] = {{"message", turn->index}, {"in_prompt", false}, {"recomputed_tokens", again}};
  out["explanation"] = fmt::format(
      "{}: it has the reasoning of message {}, which is no longer in the prompt; {} tokens of earlier turns were "
      "computed again",
      out["explanation"].get<std::string>(), turn->index, again);
}

}  // namespace

OrderedJson explain(const Generation& generation, const Listener& to) {
  const ReuseReport reuse = generation.reuse(0).of_prompt();
  const std::span<const TokenId> prompt = generation.prompt(0);
  OrderedJson out{{"prompt_tokens", prompt.size()},
                  {"reused_tokens", reuse.reused_tokens},
                  {"reused_by_tier", {{"device", reuse.reused_tokens}}},
                  {"reason", name_of(reuse.stop)},
                  {"explanation", describe(reuse)},
                  {"stopped_at", reuse.stopped_at},
                  {"stopped_at_text", nullptr},
                  {"message", nullptr}};
  if (reuse.source_tokens > 0) {
    out["source"] = {{"tokens", reuse.source_tokens}, {"found", reuse.reused_tokens == reuse.source_tokens}};
  }
  if (reuse.stop == ReuseStop::kStateBefore) {
    out["rows_upto"] = reuse.rows_upto;
    out["state"] = name_of(reuse.state_loss);
  }
  if (reuse.stop == ReuseStop::kEvicted || reuse.state_loss != StateLoss::kNeverKept) {
    out["evicted"] = {{"seconds_ago", reuse.evicted_seconds_ago}, {"for", name_of(reuse.evicted_for)}};
    if (reuse.evicted_for != EvictedFor::kOthers)
      out["evicted"]["by_task"] = task_number(to.caller, reuse.evicted_by);
  }
  const auto at = static_cast<size_t>(reuse.stopped_at);
  if (reuse.prompt_tokens > 0 && at < prompt.size()) {
    out["stopped_at_text"] = to_valid_utf8(to.tokenizer.bytes_of(prompt[at]));
    out["message"] = message_at(to.messages, reuse.stopped_at);
  }
  explain_reasoning(reuse, to, out);
  for (const DraftRecord& one : generation.record(0).drafts) {
    out["speculation"][one.drafter] = {{"drafts", one.drafts},
                                       {"draft_tokens", one.proposed},
                                       {"accepted_tokens", one.accepted},
                                       {"branch_tokens", one.branch_proposed},
                                       {"accepted_branch_tokens", one.branch_accepted}};
  }
  return out;
}

AnswerWork::AnswerWork(std::unique_ptr<Generation> generation, std::unique_ptr<AnswerWriter> writer,
                       AnswerContext context)
    : generation_(std::move(generation)), writer_(std::move(writer)), context_(std::move(context)) {}

AnswerWork::~AnswerWork() {
  generation_->cancel();
  write_down();
}

AnswerReport AnswerWork::report() const {
  AnswerReport out{totals(), nullptr};
  if (context_.explain == Explain::kYes) out.explanation = explanation();
  out.diagnosis = context_.diagnosis;
  // The cache finds a prefix to the token, but for the last one of a prompt, and what it has no full block of.
  if (out.diagnosis)
    out.diagnosis->gone =
        out.totals.reused_tokens + generation_->block_tokens() < out.diagnosis->comparison.common_tokens;
  return out;
}

Work::Progress AnswerWork::take() {
  Progress progress;
  ReadParts parts;  // of the choice that the newest events are of
  size_t choice = 0;
  for (Generation::Event& event : generation_->take()) {
    if (event.ending && event.ending->finish == FinishReason::kFailed) {
      const Progress end = failed(failure_of(*event.ending));
      progress.bytes += end.bytes;
      return {std::move(progress.bytes), true, end.status};
    }
    if (event.ending && event.ending->finish == FinishReason::kCancelled) {
      progress.bytes += failed(shutting_down()).bytes;
      return {std::move(progress.bytes), true, 503};
    }
    if (!begun_) progress.bytes += writer_->begin(report());
    begun_ = true;
    if (event.choice != choice) progress.bytes += write(choice, parts);
    choice = event.choice;
    read(event, parts);
    if (event.ending) {
      progress.bytes += write(choice, parts);
      progress.bytes += writer_->end(choice, *event.ending);
    }
    if (held_ > kLongestWhole) return failed(too_long_to_send_whole());
  }
  progress.bytes += write(choice, parts);
  if (held_ > kLongestWhole) return failed(too_long_to_send_whole());
  if (!generation_->done()) return progress;
  progress.bytes += writer_->finish(report());
  progress.done = true;
  write_down();
  return progress;
}

void AnswerWork::add(ReadParts& parts, ReadPart more) {
  if (!parts.empty() && parts.back().part.index() == more.part.index()) {
    if (auto* text = std::get_if<std::string>(&parts.back().part)) {
      text->append(std::get<std::string>(more.part));
      std::ranges::move(more.tokens, std::back_inserter(parts.back().tokens));
      return;
    }
    if (auto* thoughts = std::get_if<ReasoningText>(&parts.back().part)) {
      thoughts->text += std::get<ReasoningText>(more.part).text;
      return;
    }
    if (auto* arguments = std::get_if<ToolArguments>(&parts.back().part)) {
      arguments->json += std::get<ToolArguments>(more.part).json;
      return;
    }
  }
  parts.push_back(std::move(more));
}

// What one token brought.
void AnswerWork::read(Generation::Event& event, ReadParts& out) {
  AnswerPiece& piece = event.piece;
  if (context_.readers.empty()) {
    if (!piece.empty()) add(out, {std::move(piece.text), std::move(piece.tokens)});
    return;
  }
  AnswerReader& reader = context_.readers[event.choice];
  const bool was_inside = reader.in_reasoning();
  std::vector<AnswerPart> parts = reader.push(piece.text);
  const bool thought = was_inside || reader.in_reasoning();  // its marks count, too
  if (thought && event.token) ++reasoning_tokens_;
  if (event.ending) std::ranges::move(reader.finish(), std::back_inserter(parts));
  // The tokens go with the first text; where there is only a call, by themselves. Of thoughts no probabilities are
  // told.
  std::vector<AnswerToken> tokens = thought ? std::vector<AnswerToken>() : std::move(piece.tokens);
  if (!tokens.empty() && (parts.empty() || !std::holds_alternative<std::string>(parts.front())))
    add(out, {std::string(), std::exchange(tokens, {})});
  for (AnswerPart& part : parts) {
    const bool text = std::holds_alternative<std::string>(part);
    if (std::holds_alternative<ReasoningText>(part) && !context_.show_reasoning) continue;
    add(out, {std::move(part), text ? std::exchange(tokens, {}) : std::vector<AnswerToken>()});
  }
  if (event.ending) event.ending->called = reader.calls() > 0;
}

// A writer that sends nothing keeps the part.
std::string AnswerWork::write_part(size_t choice, ReadPart part) {
  if (const auto* head = std::get_if<ToolCallHead>(&part.part)) return writer_->tool_call(choice, *head);
  if (const auto* arguments = std::get_if<ToolArguments>(&part.part))
    return writer_->tool_arguments(choice, arguments->json);
  if (const auto* thoughts = std::get_if<ReasoningText>(&part.part)) {
    std::string out = writer_->reasoning(choice, thoughts->text);
    if (out.empty()) held_ += thoughts->text.size();
    return out;
  }
  const AnswerPiece piece{std::move(std::get<std::string>(part.part)), std::move(part.tokens)};
  std::string out = writer_->text(choice, piece);
  if (out.empty()) held_ += piece.held_bytes();
  return out;
}

std::string AnswerWork::write(size_t choice, ReadParts& parts) {
  std::string out;
  for (ReadPart& part : parts) out += write_part(choice, std::move(part));
  parts.clear();
  return out;
}

Totals AnswerWork::totals() const {
  Totals out = generation_->totals();
  out.reasoning_tokens = reasoning_tokens_;
  return out;
}

Work::Progress AnswerWork::give_up(GiveUp why) {
  if (why == GiveUp::kShutdown) return failed(shutting_down());
  return failed(ApiError({.status = 504, .type = "timeout_error", .code = "request_timeout"},
                         "the answer took longer than the server's --request-timeout"));
}

std::optional<TokenCounts> AnswerWork::tokens() const {
  const Totals now = generation_->totals();
  return TokenCounts{now.prompt_tokens, now.reused_tokens, now.answer_tokens};
}

Work::Progress AnswerWork::failed(const ApiError& error) {
  generation_->cancel();
  write_down();
  return {writer_->fail(error), true, error.reply().status};
}

void AnswerWork::write_down() {
  if (written_down_) return;
  written_down_ = true;
  FinishedRecord& record = context_.record;
  record.totals = generation_->totals();
  record.cache = explanation();
  for (size_t i = 0; i < generation_->choices(); ++i) {
    record.finish_reasons.emplace_back(reason_name(generation_->finish(i)));
    const auto task = generation_->task(i);
    if (task && record.tasks.size() < FinishedRecord::kMostTasks)
      record.tasks.push_back({task_number(*context_.caller, *task), generation_->record(i), *task});
  }
  context_.metrics.finished({.prompt_tokens = record.totals.prompt_tokens,
                             .reused_tokens = record.totals.reused_tokens,
                             .generated_tokens = record.totals.answer_tokens,
                             .seconds = record.totals.seconds,
                             .reason = reason_name(generation_->finish(0))});
  context_.records.add(record);
}

}  // namespace kvasir
