#include "server/answer_writer.h"
#include "server/sse.h"

namespace kvasir {
namespace {

// Unlike OpenAI's, the three kinds of input tokens exclude each other.
OrderedJson usage_of(const Totals& totals) {
  return {
      {"input_tokens", totals.prompt_tokens - totals.reused_tokens - totals.written_tokens},
      {"cache_creation_input_tokens", totals.written_tokens},
      {"cache_read_input_tokens", totals.reused_tokens},
      {"cache_creation", {{"ephemeral_5m_input_tokens", totals.written_tokens}, {"ephemeral_1h_input_tokens", 0}}},
      {"output_tokens", totals.answer_tokens}};
}

OrderedJson stop_reason(const Ending& ending) {
  if (ending.finish == FinishReason::kLength) return "max_tokens";
  return ending.stop_string.empty() ? "end_turn" : "stop_sequence";
}

OrderedJson stop_sequence(const Ending& ending) {
  return ending.stop_string.empty() ? OrderedJson(nullptr) : OrderedJson(ending.stop_string);
}

OrderedJson message(const AnswerHead& head, OrderedJson content) {
  return {{"id", head.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", head.model},
          {"content", std::move(content)},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

std::string event(const OrderedJson& json) { return sse_event(json["type"].get<std::string>(), to_text(json)); }

class AnthropicStream : public AnswerWriter {
 public:
  explicit AnthropicStream(AnswerHead head) : head_(std::move(head)) {}

  std::string begin(const AnswerReport& report) override {
    OrderedJson first = message(head_, OrderedJson::array());
    first["usage"] = usage_of(report.totals);
    return event({{"type", "message_start"}, {"message", std::move(first)}}) +
           event(
               {{"type", "content_block_start"}, {"index", 0}, {"content_block", {{"type", "text"}, {"text", ""}}}});
  }

  std::string text(size_t, const AnswerPiece& piece) override {
    return event(
        {{"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", "text_delta"}, {"text", piece.text}}}});
  }

  std::string end(size_t, const Ending& ending) override {
    ending_ = ending;
    return event({{"type", "content_block_stop"}, {"index", 0}});
  }

  std::string finish(const AnswerReport& report) override {
    OrderedJson last{{"type", "message_delta"},
                     {"delta", {{"stop_reason", stop_reason(ending_)}, {"stop_sequence", stop_sequence(ending_)}}},
                     {"usage", usage_of(report.totals)}};
    if (!report.explanation.is_null()) last["kvasir"] = report.explanation;
    return event(last) + event({{"type", "message_stop"}});
  }

  std::string fail(const ApiError& error) override {
    return sse_event("error", error_body(Dialect::kAnthropic, error));
  }

 private:
  AnswerHead head_;
  Ending ending_;
};

class AnthropicWhole : public AnswerWriter {
 public:
  explicit AnthropicWhole(AnswerHead head) : head_(std::move(head)) {}

  std::string begin(const AnswerReport&) override { return {}; }
  std::string text(size_t, const AnswerPiece& piece) override {
    text_ += piece.text;
    return {};
  }
  std::string end(size_t, const Ending& ending) override {
    ending_ = ending;
    return {};
  }

  std::string finish(const AnswerReport& report) override {
    OrderedJson out = message(head_, OrderedJson::array({{{"type", "text"}, {"text", text_}}}));
    out["stop_reason"] = stop_reason(ending_);
    out["stop_sequence"] = stop_sequence(ending_);
    out["usage"] = usage_of(report.totals);
    if (!report.explanation.is_null()) out["kvasir"] = report.explanation;
    return to_text(out);
  }

  std::string fail(const ApiError& error) override { return error_body(Dialect::kAnthropic, error); }

 private:
  AnswerHead head_;
  std::string text_;
  Ending ending_;
};

}  // namespace

std::unique_ptr<AnswerWriter> anthropic_stream(AnswerHead head) {
  return std::make_unique<AnthropicStream>(std::move(head));
}

std::unique_ptr<AnswerWriter> anthropic_whole(AnswerHead head) {
  return std::make_unique<AnthropicWhole>(std::move(head));
}

}  // namespace kvasir
