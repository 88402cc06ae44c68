#include <optional>
#include <utility>

#include "server/api/answer_writer.h"
#include "server/http/sse.h"

namespace kvasir {
namespace {

// Unlike OpenAI's, the three kinds of input tokens exclude each other.
OrderedJson counts_of(const Totals& totals) {
  return {{"input_tokens", totals.prompt_tokens - totals.reused_tokens - totals.written_tokens},
          {"cache_creation_input_tokens", totals.written_tokens},
          {"cache_read_input_tokens", totals.reused_tokens},
          {"output_tokens", totals.answer_tokens},
          {"output_tokens_details", nullptr},
          {"server_tool_use", nullptr}};
}

OrderedJson anthropic_usage(const Totals& totals) {
  OrderedJson out = counts_of(totals);
  out["cache_creation"] = {{"ephemeral_5m_input_tokens", totals.written_tokens - totals.hour_tokens},
                           {"ephemeral_1h_input_tokens", totals.hour_tokens}};
  for (const char* name : {"inference_geo", "service_tier", "speed"}) out[name] = nullptr;
  return out;
}

OrderedJson text_block(const std::string& text) { return {{"type", "text"}, {"text", text}, {"citations", nullptr}}; }

// Nothing is signed here: what comes back is read whatever its signature.
constexpr const char* kSignature = "unsigned";

OrderedJson thinking_block(const std::string& text, const std::string& signature) {
  return {{"type", "thinking"}, {"thinking", text}, {"signature", signature}};
}

OrderedJson stop_reason(const Ending& ending) {
  if (ending.finish == FinishReason::kLength) return "max_tokens";
  if (ending.called) return "tool_use";
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
          {"container", nullptr},
          {"diagnostics", nullptr},
          {"stop_details", nullptr},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

OrderedJson call_block(const ToolCallHead& head, OrderedJson input) {
  return {{"type", "tool_use"},
          {"id", head.id},
          {"caller", {{"type", "direct"}}},
          {"name", head.name},
          {"input", std::move(input)}};
}

std::string event(const OrderedJson& json) { return sse_event(json["type"].get<std::string>(), to_text(json)); }

class AnthropicStream : public AnswerWriter {
 public:
  explicit AnthropicStream(AnswerHead head) : head_(std::move(head)) {}

  std::string begin(const AnswerReport& report) override {
    OrderedJson first = message(head_, OrderedJson::array());
    first["usage"] = anthropic_usage(report.totals);
    if (report.diagnosis) first["diagnostics"] = anthropic_diagnostics(*report.diagnosis);
    return event({{"type", "message_start"}, {"message", std::move(first)}});
  }

  std::string text(size_t, const AnswerPiece& piece) override {
    std::string out;
    if (open_ != Block::kText) out = start(Block::kText, text_block(""));
    return out += delta({{"type", "text_delta"}, {"text", piece.text}});
  }

  std::string reasoning(size_t, const std::string& piece) override {
    std::string out;
    if (open_ != Block::kThinking) out = start(Block::kThinking, thinking_block("", ""));
    return out += delta({{"type", "thinking_delta"}, {"thinking", piece}});
  }

  std::string tool_call(size_t, const ToolCallHead& head) override {
    return start(Block::kCall, call_block(head, OrderedJson::object()));
  }

  std::string tool_arguments(size_t, const std::string& piece) override {
    return delta({{"type", "input_json_delta"}, {"partial_json", piece}});
  }

  std::string end(size_t, const Ending& ending) override {
    ending_ = ending;
    // An answer without a word is an empty text.
    if (blocks_ == 0) return start(Block::kText, text_block("")) + stop();
    return stop();
  }

  std::string finish(const AnswerReport& report) override {
    OrderedJson last{{"type", "message_delta"},
                     {"delta",
                      {{"container", nullptr},
                       {"stop_details", nullptr},
                       {"stop_reason", stop_reason(ending_)},
                       {"stop_sequence", stop_sequence(ending_)}}},
                     {"usage", counts_of(report.totals)}};
    if (!report.explanation.is_null()) last["kvasir"] = report.explanation;
    return event(last) + event({{"type", "message_stop"}});
  }

  std::string fail(const ApiError& error) override {
    return sse_event("error", error_body(Dialect::kAnthropic, error));
  }

 private:
  enum class Block { kNone, kThinking, kText, kCall };

  std::string start(Block block, OrderedJson content) {
    std::string out = stop();
    open_ = block;
    return out +=
           event({{"type", "content_block_start"}, {"index", blocks_++}, {"content_block", std::move(content)}});
  }
  std::string stop() {
    const Block open = std::exchange(open_, Block::kNone);
    if (open == Block::kNone) return {};
    std::string out;
    if (open == Block::kThinking) out = delta({{"type", "signature_delta"}, {"signature", kSignature}});
    return out += event({{"type", "content_block_stop"}, {"index", blocks_ - 1}});
  }
  std::string delta(OrderedJson more) const {
    return event({{"type", "content_block_delta"}, {"index", blocks_ - 1}, {"delta", std::move(more)}});
  }

  AnswerHead head_;
  Ending ending_;
  Block open_ = Block::kNone;
  int blocks_ = 0;
};

class AnthropicWhole : public AnswerWriter {
 public:
  explicit AnthropicWhole(AnswerHead head) : head_(std::move(head)) {}

  std::string begin(const AnswerReport&) override { return {}; }
  std::string text(size_t, const AnswerPiece& piece) override {
    if (blocks_.empty() || blocks_.back().call || blocks_.back().thinking) blocks_.emplace_back();
    blocks_.back().text += piece.text;
    return {};
  }
  std::string reasoning(size_t, const std::string& piece) override {
    if (blocks_.empty() || !blocks_.back().thinking) blocks_.push_back({.thinking = true});
    blocks_.back().text += piece;
    return {};
  }
  std::string tool_call(size_t, const ToolCallHead& head) override {
    blocks_.push_back({.call = head});
    return {};
  }
  std::string tool_arguments(size_t, const std::string& piece) override {
    blocks_.back().text += piece;
    return {};
  }
  std::string end(size_t, const Ending& ending) override {
    ending_ = ending;
    return {};
  }

  std::string finish(const AnswerReport& report) override {
    if (blocks_.empty()) blocks_.emplace_back();  // an answer without a word is an empty text
    OrderedJson content = OrderedJson::array();
    for (const Block& block : blocks_) content.push_back(to_json(block));
    OrderedJson out = message(head_, std::move(content));
    out["stop_reason"] = stop_reason(ending_);
    out["stop_sequence"] = stop_sequence(ending_);
    out["usage"] = anthropic_usage(report.totals);
    if (report.diagnosis) out["diagnostics"] = anthropic_diagnostics(*report.diagnosis);
    if (!report.explanation.is_null()) out["kvasir"] = report.explanation;
    return to_text(out);
  }

  std::string fail(const ApiError& error) override { return error_body(Dialect::kAnthropic, error); }

 private:
  struct Block {
    std::optional<ToolCallHead> call{};  // nullopt: text, or
    bool thinking = false;
    std::string text{};  // or the call's arguments
  };

  static OrderedJson to_json(const Block& block) {
    if (block.thinking) return thinking_block(block.text, kSignature);
    if (!block.call) return text_block(block.text);
    return call_block(*block.call, object_or_empty(block.text));
  }

  AnswerHead head_;
  std::vector<Block> blocks_;
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
