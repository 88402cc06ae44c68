#include "server/api/answer_writer.h"
#include "server/api/logprobs_json.h"
#include "server/http/sse.h"

namespace kvasir {
namespace {

OrderedJson openai_usage(const Totals& totals) {
  return {{"prompt_tokens", totals.prompt_tokens},
          {"completion_tokens", totals.answer_tokens},
          {"total_tokens", totals.prompt_tokens + totals.answer_tokens},
          {"prompt_tokens_details",
           {{"cached_tokens", totals.reused_tokens}, {"cache_write_tokens", totals.written_tokens}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", totals.reasoning_tokens},
            {"accepted_prediction_tokens", totals.accepted_tokens},
            {"rejected_prediction_tokens", totals.draft_tokens - totals.accepted_tokens}}}};
}

OrderedJson finish_name(const Ending& ending) {
  if (ending.finish == FinishReason::kLength) return "length";
  return ending.called ? "tool_calls" : "stop";
}

OrderedJson call_json(const ToolCallHead& head, const std::string& arguments) {
  return {{"id", head.id}, {"type", "function"}, {"function", {{"name", head.name}, {"arguments", arguments}}}};
}

OrderedJson logprobs_of(OpenAiKind kind, std::span<const AnswerToken> tokens) {
  return kind == OpenAiKind::kChat ? chat_logprobs(tokens) : completion_logprobs(tokens);
}

class OpenAiStream : public AnswerWriter {
 public:
  OpenAiStream(OpenAiKind kind, AnswerHead head) : kind_(kind), head_(std::move(head)), calls_(head_.choices) {}

  std::string begin(const AnswerReport&) override {
    std::string out;
    for (size_t i = 0; i < head_.choices; ++i) {
      if (kind_ == OpenAiKind::kChat) {
        out += chunk(choice(i, {{"role", "assistant"}, {"content", ""}}));
      } else if (!head_.echo.empty()) {
        out += text(i, {head_.echo[i]});
      }
    }
    return out;
  }

  std::string text(size_t index, const AnswerPiece& piece) override {
    OrderedJson one =
        kind_ == OpenAiKind::kChat ? choice(index, {{"content", piece.text}}) : choice(index, piece.text);
    if (!piece.tokens.empty()) one["logprobs"] = logprobs_of(kind_, piece.tokens);
    return chunk(std::move(one));
  }

  std::string reasoning(size_t index, const std::string& piece) override {
    return chunk(choice(index, {{"reasoning_content", piece}, {"reasoning", piece}}));
  }

  std::string tool_call(size_t index, const ToolCallHead& head) override {
    calls_[index] = head.index;
    OrderedJson call{{"index", head.index}};
    call.update(call_json(head, ""));
    return chunk(choice(index, {{"tool_calls", OrderedJson::array({std::move(call)})}}));
  }

  std::string tool_arguments(size_t index, const std::string& piece) override {
    OrderedJson call{{"index", calls_[index]}, {"function", {{"arguments", piece}}}};
    return chunk(choice(index, {{"tool_calls", OrderedJson::array({std::move(call)})}}));
  }

  std::string end(size_t index, const Ending& ending) override {
    OrderedJson last = kind_ == OpenAiKind::kChat ? choice(index, OrderedJson::object()) : choice(index, "");
    last["finish_reason"] = finish_name(ending);
    return chunk(std::move(last));
  }

  std::string finish(const AnswerReport& report) override {
    std::string out;
    // The explanation rides on a last chunk of its own, unless there is one for the usage.
    if (head_.include_usage || !report.explanation.is_null() || report.diagnosis) {
      OrderedJson last = envelope(OrderedJson::array());
      if (head_.include_usage) last["usage"] = openai_usage(report.totals);
      if (report.diagnosis) last["prompt_cache_diagnostics"] = openai_diagnostics(*report.diagnosis);
      if (!report.explanation.is_null()) last["kvasir"] = report.explanation;
      out = sse_data(to_text(last));
    }
    return out.append(kSseDone);
  }

  std::string fail(const ApiError& error) override { return sse_data(error_body(Dialect::kOpenAi, error)); }

 private:
  OrderedJson choice(size_t index, OrderedJson content) const {
    return {{"index", index},
            {kind_ == OpenAiKind::kChat ? "delta" : "text", std::move(content)},
            {"logprobs", nullptr},
            {"finish_reason", nullptr}};
  }

  OrderedJson envelope(OrderedJson choices) const {
    return {{"id", head_.id},
            {"object", kind_ == OpenAiKind::kChat ? "chat.completion.chunk" : "text_completion"},
            {"created", head_.created},
            {"model", head_.model},
            {"choices", std::move(choices)}};
  }

  std::string chunk(OrderedJson one) const {
    OrderedJson out = envelope(OrderedJson::array({std::move(one)}));
    if (head_.include_usage) out["usage"] = nullptr;
    return sse_data(to_text(out));
  }

  OpenAiKind kind_;
  AnswerHead head_;
  std::vector<size_t> calls_;  // the newest of each choice
};

class OpenAiWhole : public AnswerWriter {
 public:
  OpenAiWhole(OpenAiKind kind, AnswerHead head)
      : kind_(kind),
        head_(std::move(head)),
        pieces_(head_.choices),
        thoughts_(head_.choices),
        calls_(head_.choices),
        endings_(head_.choices) {
    for (size_t i = 0; i < head_.echo.size(); ++i) pieces_[i].text = head_.echo[i];
  }

  std::string begin(const AnswerReport&) override { return {}; }
  std::string text(size_t choice, const AnswerPiece& piece) override {
    pieces_[choice] += piece;
    return {};
  }
  std::string reasoning(size_t choice, const std::string& piece) override {
    thoughts_[choice] += piece;
    return {};
  }
  std::string tool_call(size_t choice, const ToolCallHead& head) override {
    calls_[choice].push_back({head, ""});
    return {};
  }
  std::string tool_arguments(size_t choice, const std::string& piece) override {
    calls_[choice].back().second += piece;
    return {};
  }
  std::string end(size_t choice, const Ending& ending) override {
    endings_[choice] = ending;
    return {};
  }

  std::string finish(const AnswerReport& report) override {
    OrderedJson choices = OrderedJson::array();
    for (size_t i = 0; i < pieces_.size(); ++i) {
      OrderedJson choice{{"index", i}};
      if (kind_ == OpenAiKind::kChat) {
        choice["message"] = message(i);
      } else {
        choice["text"] = std::move(pieces_[i].text);
      }
      choice["logprobs"] = head_.logprobs ? logprobs_of(kind_, pieces_[i].tokens) : OrderedJson(nullptr);
      choice["finish_reason"] = finish_name(endings_[i]);
      choices.push_back(std::move(choice));
    }
    OrderedJson out{{"id", head_.id},
                    {"object", kind_ == OpenAiKind::kChat ? "chat.completion" : "text_completion"},
                    {"created", head_.created},
                    {"model", head_.model},
                    {"choices", std::move(choices)},
                    {"usage", openai_usage(report.totals)}};
    if (report.diagnosis) out["prompt_cache_diagnostics"] = openai_diagnostics(*report.diagnosis);
    if (!report.explanation.is_null()) out["kvasir"] = report.explanation;
    return to_text(out);
  }

  std::string fail(const ApiError& error) override { return error_body(Dialect::kOpenAi, error); }

 private:
  OrderedJson message(size_t index) const {
    OrderedJson out{{"role", "assistant"}, {"content", pieces_[index].text}, {"refusal", nullptr}};
    if (!thoughts_[index].empty()) {
      out["reasoning_content"] = thoughts_[index];  // most clients' name of it, and vLLM's newer one
      out["reasoning"] = thoughts_[index];
    }
    if (calls_[index].empty()) return out;
    if (pieces_[index].text.empty()) out["content"] = nullptr;
    out["tool_calls"] = OrderedJson::array();
    for (const auto& [head, arguments] : calls_[index]) out["tool_calls"].push_back(call_json(head, arguments));
    return out;
  }

  OpenAiKind kind_;
  AnswerHead head_;
  std::vector<AnswerPiece> pieces_;
  std::vector<std::string> thoughts_;
  std::vector<std::vector<std::pair<ToolCallHead, std::string>>> calls_;  // with their arguments
  std::vector<Ending> endings_;
};

}  // namespace

std::unique_ptr<AnswerWriter> openai_stream(OpenAiKind kind, AnswerHead head) {
  return std::make_unique<OpenAiStream>(kind, std::move(head));
}

std::unique_ptr<AnswerWriter> openai_whole(OpenAiKind kind, AnswerHead head) {
  return std::make_unique<OpenAiWhole>(kind, std::move(head));
}

}  // namespace kvasir
