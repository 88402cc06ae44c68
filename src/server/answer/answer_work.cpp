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

}  // namespace

OrderedJson explain(const Generation& generation, const Listener& to) {
  const ReuseReport& reuse = generation.reuse(0);
  const std::span<const TokenId> prompt = generation.prompt(0);
  OrderedJson out{{"prompt_tokens", prompt.size()},
                  {"reused_tokens", reuse.reused_tokens},
                  {"reused_by_tier", {{"device", reuse.reused_tokens}}},
                  {"reason", name_of(reuse.stop)},
                  {"explanation", describe(reuse)},
                  {"stopped_at", reuse.stopped_at},
                  {"stopped_at_text", nullptr},
                  {"message", nullptr}};
  if (reuse.stop == ReuseStop::kEvicted) {
    out["evicted"] = {{"seconds_ago", reuse.evicted_seconds_ago}, {"for", name_of(reuse.evicted_for)}};
    if (reuse.evicted_for != EvictedFor::kOthers)
      out["evicted"]["by_task"] = task_number(to.caller, reuse.evicted_by);
  }
  const auto at = static_cast<size_t>(reuse.stopped_at);
  if (reuse.prompt_tokens > 0 && at < prompt.size()) {
    out["stopped_at_text"] = to_valid_utf8(to.tokenizer.bytes_of(prompt[at]));
    out["message"] = message_at(to.messages, reuse.stopped_at);
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
  AnswerReport out{generation_->totals(), nullptr};
  if (context_.explain == Explain::kYes) out.explanation = explanation();
  return out;
}

Work::Progress AnswerWork::take() {
  Progress progress;
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
    progress.bytes += write(std::move(event));
    if (held_ > kLongestWhole) return failed(too_long_to_send_whole());
  }
  if (!generation_->done()) return progress;
  progress.bytes += writer_->finish(report());
  progress.done = true;
  write_down();
  return progress;
}

// A writer that sends nothing keeps the piece.
std::string AnswerWork::write_text(size_t choice, const AnswerPiece& piece) {
  std::string out = writer_->text(choice, piece);
  if (out.empty()) held_ += piece.held_bytes();
  return out;
}

std::string AnswerWork::write(Generation::Event event) {
  std::string out;
  if (context_.calls.empty()) {
    if (!event.piece.empty()) out += write_text(event.choice, event.piece);
    if (event.ending) out += writer_->end(event.choice, *event.ending);
    return out;
  }
  ToolCallReader& reader = context_.calls[event.choice];
  std::vector<AnswerPart> parts = reader.push(event.piece.text);
  if (event.ending) std::ranges::move(reader.finish(), std::back_inserter(parts));
  // The tokens go with the first text; where there is only a call, by themselves.
  std::vector<AnswerToken> tokens = std::move(event.piece.tokens);
  if (!tokens.empty() && (parts.empty() || !std::holds_alternative<std::string>(parts.front())))
    out += write_text(event.choice, {"", std::exchange(tokens, {})});
  for (AnswerPart& part : parts) {
    if (auto* text = std::get_if<std::string>(&part)) {
      out += write_text(event.choice, {std::move(*text), std::exchange(tokens, {})});
    } else if (const auto* head = std::get_if<ToolCallHead>(&part)) {
      out += writer_->tool_call(event.choice, *head);
    } else {
      out += writer_->tool_arguments(event.choice, std::get<ToolArguments>(part).json);
    }
  }
  if (!event.ending) return out;
  event.ending->called = reader.calls() > 0;
  return out += writer_->end(event.choice, *event.ending);
}

Work::Progress AnswerWork::give_up(GiveUp why) {
  if (why == GiveUp::kShutdown) return failed(shutting_down());
  return failed(ApiError({.status = 408, .type = "timeout_error", .code = "request_timeout"},
                         "the answer took longer than the server's --request-timeout"));
}

std::optional<TokenCounts> AnswerWork::tokens() const {
  const Totals totals = generation_->totals();
  return TokenCounts{totals.prompt_tokens, totals.reused_tokens, totals.answer_tokens};
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
      record.tasks.push_back({task_number(*context_.caller, *task), generation_->record(i)});
  }
  context_.metrics.finished({.prompt_tokens = record.totals.prompt_tokens,
                             .reused_tokens = record.totals.reused_tokens,
                             .generated_tokens = record.totals.answer_tokens,
                             .seconds = record.totals.seconds,
                             .reason = reason_name(generation_->finish(0))});
  context_.records.add(record);
}

}  // namespace kvasir
