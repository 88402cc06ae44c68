#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>

#include "server/api/answer_writer.h"
#include "server/api/logprobs_json.h"

namespace kvasir {
namespace {

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// One object of the answer: {model, created_at, message | response, done}. A stream is a line for each piece.
class OllamaWriter : public AnswerWriter {
 public:
  OllamaWriter(OllamaKind kind, AnswerHead head) : kind_(kind), head_(std::move(head)) {}

  std::string begin(const AnswerReport&) override { return {}; }
  std::string tool_call(size_t, const ToolCallHead& head) override {
    calls_.push_back({head.name, ""});
    return {};
  }
  std::string tool_arguments(size_t, const std::string& piece) override {
    calls_.back().second += piece;
    return {};
  }
  std::string end(size_t, const Ending& ending) override {
    ending_ = ending;
    return {};
  }
  std::string fail(const ApiError& error) override { return error_body(Dialect::kOllama, error) + "\n"; }

 protected:
  OrderedJson object(const AnswerPiece& piece, const std::string& thoughts) const {
    OrderedJson out{
        {"model", head_.model},
        {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(head_.created)))}};
    if (kind_ == OllamaKind::kChat) {
      out["message"] = {{"role", "assistant"}, {"content", piece.text}};
      if (!thoughts.empty()) out["message"]["thinking"] = thoughts;
    } else {
      out["response"] = piece.text;
      if (!thoughts.empty()) out["thinking"] = thoughts;
    }
    out["done"] = false;
    if (!piece.tokens.empty()) out["logprobs"] = logprob_list(piece.tokens);
    return out;
  }

  OrderedJson last_object(const AnswerPiece& piece, const std::string& thoughts, const AnswerReport& report) const {
    const Totals& totals = report.totals;
    OrderedJson out = object(piece, thoughts);
    // Arguments are objects here, so that calls come when they are whole: with the last object.
    for (const auto& [name, arguments] : calls_) {
      out["message"]["tool_calls"].push_back(
          {{"function", {{"name", name}, {"arguments", object_or_empty(arguments)}}}});
    }
    out["done"] = true;
    out["done_reason"] = ending_.finish == FinishReason::kLength ? "length" : "stop";
    out["total_duration"] = nanoseconds(totals.seconds);
    out["load_duration"] = 0;
    out["prompt_eval_count"] = totals.prompt_tokens;
    out["prompt_eval_duration"] = nanoseconds(totals.first_token_seconds);
    out["eval_count"] = totals.answer_tokens;
    out["eval_duration"] = nanoseconds(totals.seconds - totals.first_token_seconds);
    if (!report.explanation.is_null()) out["kvasir"] = report.explanation;
    return out;
  }

 private:
  OllamaKind kind_;
  AnswerHead head_;
  std::vector<std::pair<std::string, std::string>> calls_;  // name and arguments
  Ending ending_;
};

class OllamaStream : public OllamaWriter {
 public:
  using OllamaWriter::OllamaWriter;
  std::string text(size_t, const AnswerPiece& piece) override { return to_text(object(piece, {})) + "\n"; }
  std::string reasoning(size_t, const std::string& piece) override { return to_text(object({}, piece)) + "\n"; }
  std::string finish(const AnswerReport& report) override { return to_text(last_object({}, {}, report)) + "\n"; }
};

class OllamaWhole : public OllamaWriter {
 public:
  using OllamaWriter::OllamaWriter;
  std::string text(size_t, const AnswerPiece& piece) override {
    whole_ += piece;
    return {};
  }
  std::string reasoning(size_t, const std::string& piece) override {
    thoughts_ += piece;
    return {};
  }
  std::string finish(const AnswerReport& report) override { return to_text(last_object(whole_, thoughts_, report)); }

 private:
  AnswerPiece whole_;
  std::string thoughts_;
};

}  // namespace

std::unique_ptr<AnswerWriter> ollama_stream(OllamaKind kind, AnswerHead head) {
  return std::make_unique<OllamaStream>(kind, std::move(head));
}

std::unique_ptr<AnswerWriter> ollama_whole(OllamaKind kind, AnswerHead head) {
  return std::make_unique<OllamaWhole>(kind, std::move(head));
}

}  // namespace kvasir
