#include "server/api/responses_writer.h"

#include <ctime>
#include <optional>
#include <vector>

#include "server/api/logprobs_json.h"
#include "server/api/reasoning_parse.h"
#include "server/http/sse.h"
#include "server/random_id.h"

namespace kvasir {
namespace {

OrderedJson responses_usage(const Totals& totals) {
  return {{"input_tokens", totals.prompt_tokens},
          {"input_tokens_details",
           {{"cached_tokens", totals.reused_tokens}, {"cache_write_tokens", totals.written_tokens}}},
          {"output_tokens", totals.answer_tokens},
          {"output_tokens_details", {{"reasoning_tokens", totals.reasoning_tokens}}},
          {"total_tokens", totals.prompt_tokens + totals.answer_tokens}};
}

OrderedJson text_part(const std::string& text, OrderedJson logprobs) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", OrderedJson::array()},
          {"logprobs", std::move(logprobs)}};
}

// The events of a stream tell tokens without their bytes.
OrderedJson without_bytes(OrderedJson logprobs) {
  for (OrderedJson& token : logprobs) {
    token.erase("bytes");
    for (OrderedJson& top : token["top_logprobs"]) top.erase("bytes");
  }
  return logprobs;
}

// One thing that the model put out: a message, what it thought, or the call of a function.
struct Item {
  std::string id;
  std::optional<ToolCallHead> call{};  // nullopt: a message, or
  bool reasoning = false;
  std::string text{};  // or the call's arguments
  OrderedJson logprobs = OrderedJson::array();
  std::string space{};  // of the call's function
  bool seal = false;    // of reasoning: say it once more, to be handed back

  bool is_message() const { return !call && !reasoning; }

  OrderedJson part() const {
    return reasoning ? OrderedJson{{"type", "reasoning_text"}, {"text", text}} : text_part(text, logprobs);
  }

  // `parts` are the content of a message, or of what was thought.
  OrderedJson json(std::string_view status, OrderedJson parts) const {
    if (reasoning) {
      OrderedJson out{{"id", id},
                      {"type", "reasoning"},
                      {"status", status},
                      {"summary", OrderedJson::array()},
                      {"content", std::move(parts)}};
      if (seal) out["encrypted_content"] = sealed_reasoning(text);
      return out;
    }
    if (!call) {
      return {
          {"id", id}, {"type", "message"}, {"status", status}, {"role", "assistant"}, {"content", std::move(parts)}};
    }
    OrderedJson out{{"id", id},           {"type", "function_call"}, {"status", status}, {"call_id", call->id},
                    {"name", call->name}, {"arguments", text}};
    if (!space.empty()) out["namespace"] = space;
    return out;
  }
  OrderedJson whole(std::string_view status) const { return json(status, OrderedJson::array({part()})); }
};

// The response as it grows.
class Draft {
 public:
  Draft(AnswerHead head, ResponseFrame frame) : head_(std::move(head)), frame_(std::move(frame)) {}

  bool has_message() const { return !items_.empty() && items_.back().is_message(); }
  bool has_reasoning() const { return !items_.empty() && items_.back().reasoning; }
  bool empty() const { return items_.empty(); }
  const Item& newest() const { return items_.back(); }
  size_t index() const { return items_.size() - 1; }  // of the newest

  void add_message() { items_.push_back({.id = "msg_" + random_hex(96)}); }
  void add_reasoning() { items_.push_back({.id = "rs_" + random_hex(96), .reasoning = true, .seal = frame_.seal}); }
  void add_call(const ToolCallHead& head) {
    items_.push_back({.id = "fc_" + random_hex(96), .call = head});
    const auto space = frame_.spaces.find(head.name);
    if (space != frame_.spaces.end()) items_.back().space = space->second;
  }
  void add(const AnswerPiece& piece) {
    items_.back().text += piece.text;
    for (OrderedJson& token : logprob_list(piece.tokens)) items_.back().logprobs.push_back(std::move(token));
  }
  void add_text(const std::string& piece) { items_.back().text += piece; }  // of a call's arguments, of reasoning
  void end(const Ending& ending) { cut_ = ending.finish == FinishReason::kLength; }
  std::string_view status() const { return cut_ ? "incomplete" : "completed"; }

  OrderedJson response(std::string_view status, OrderedJson output) const {
    OrderedJson out{{"id", head_.id},
                    {"object", "response"},
                    {"created_at", head_.created},
                    {"status", status},
                    {"completed_at", nullptr},
                    {"error", nullptr},
                    {"incomplete_details", nullptr},
                    {"model", head_.model},
                    {"output", std::move(output)}};
    out.update(frame_.settings);
    return out;
  }

  // The finished one, which is kept if anybody does.
  OrderedJson finished(const AnswerReport& report) const {
    OrderedJson out = response(status(), output(status()));
    if (cut_) {
      out["incomplete_details"] = {{"reason", "max_output_tokens"}};
    } else {
      out["completed_at"] = std::time(nullptr);
    }
    out["usage"] = responses_usage(report.totals);
    if (report.diagnosis) out["prompt_cache_diagnostics"] = openai_diagnostics(*report.diagnosis);
    if (frame_.keep) frame_.keep(out);
    if (!report.explanation.is_null()) out["kvasir"] = report.explanation;
    return out;
  }

  OrderedJson failed(const ApiError& error) const {
    OrderedJson out = response("failed", output("incomplete"));
    out["error"] = {{"code", "server_error"}, {"message", error.message()}};
    return out;
  }

 private:
  // Only the last item can have been cut off.
  OrderedJson output(std::string_view last_status) const {
    OrderedJson out = OrderedJson::array();
    for (size_t i = 0; i < items_.size(); ++i)
      out.push_back(items_[i].whole(i + 1 == items_.size() ? last_status : "completed"));
    return out;
  }

  AnswerHead head_;
  ResponseFrame frame_;
  std::vector<Item> items_;
  bool cut_ = false;
};

class ResponsesStream : public AnswerWriter {
 public:
  ResponsesStream(AnswerHead head, ResponseFrame frame) : draft_(std::move(head), std::move(frame)) {}

  std::string begin(const AnswerReport&) override {
    const OrderedJson empty = draft_.response("in_progress", OrderedJson::array());
    std::string out = event("response.created", {{"response", empty}});
    return out += event("response.in_progress", {{"response", empty}});
  }

  std::string reasoning(size_t, const std::string& piece) override {
    std::string out;
    if (!draft_.has_reasoning()) {
      out = close("completed");
      draft_.add_reasoning();
      out += open_item();
    }
    draft_.add_text(piece);
    return out += event("response.reasoning_text.delta", in_part({{"delta", piece}}));
  }

  std::string text(size_t, const AnswerPiece& piece) override {
    std::string out = draft_.has_message() ? std::string() : open_message();
    draft_.add(piece);
    return out += event("response.output_text.delta",
                        in_part({{"delta", piece.text}, {"logprobs", without_bytes(logprob_list(piece.tokens))}}));
  }

  std::string tool_call(size_t, const ToolCallHead& head) override {
    std::string out = close("completed");
    draft_.add_call(head);
    return out += event("response.output_item.added",
                        {{"output_index", draft_.index()}, {"item", draft_.newest().whole("in_progress")}});
  }

  std::string tool_arguments(size_t, const std::string& piece) override {
    draft_.add_text(piece);
    return event("response.function_call_arguments.delta", in_item({{"delta", piece}}));
  }

  std::string end(size_t, const Ending& ending) override {
    draft_.end(ending);
    std::string out = draft_.empty() ? open_message() : std::string();  // an answer without a word is an empty text
    return out += close(draft_.status());
  }

  std::string finish(const AnswerReport& report) override {
    return event("response." + std::string(draft_.status()), {{"response", draft_.finished(report)}});
  }

  std::string fail(const ApiError& error) override {
    if (sequence_ > 0) return event("response.failed", {{"response", draft_.failed(error)}});
    const ApiError::Reply& reply = error.reply();
    const auto or_null = [](const std::string& text) {
      return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
    };
    return event("error",
                 {{"code", or_null(reply.code)}, {"message", error.message()}, {"param", or_null(reply.param)}});
  }

 private:
  std::string open_message() {
    std::string out = close("completed");
    draft_.add_message();
    return out += open_item();
  }

  // The newest, with its first part.
  std::string open_item() {
    const Item& item = draft_.newest();
    std::string out = event("response.output_item.added", {{"output_index", draft_.index()},
                                                           {"item", item.json("in_progress", OrderedJson::array())}});
    return out += event("response.content_part.added", in_part({{"part", item.part()}}));
  }

  // Ends the newest item, if there is one.
  std::string close(std::string_view status) {
    if (draft_.empty()) return {};
    const Item& item = draft_.newest();
    std::string out;
    if (item.call) {
      out = event("response.function_call_arguments.done",
                  in_item({{"name", item.call->name}, {"arguments", item.text}}));
    } else if (item.reasoning) {
      out = event("response.reasoning_text.done", in_part({{"text", item.text}}));
      out += event("response.content_part.done", in_part({{"part", item.part()}}));
    } else {
      out = event("response.output_text.done",
                  in_part({{"text", item.text}, {"logprobs", without_bytes(item.logprobs)}}));
      out += event("response.content_part.done", in_part({{"part", item.part()}}));
    }
    return out +=
           event("response.output_item.done", {{"output_index", draft_.index()}, {"item", item.whole(status)}});
  }

  OrderedJson in_item(const OrderedJson& more) const {
    OrderedJson out{{"item_id", draft_.newest().id}, {"output_index", draft_.index()}};
    out.update(more);
    return out;
  }

  OrderedJson in_part(const OrderedJson& more) const {
    OrderedJson out = in_item({{"content_index", 0}});
    out.update(more);
    return out;
  }

  std::string event(const std::string& type, const OrderedJson& more) {
    OrderedJson out{{"type", type}, {"sequence_number", sequence_++}};
    out.update(more);
    return sse_event(type, to_text(out));
  }

  Draft draft_;
  std::int64_t sequence_ = 0;  // of the next event
};

class ResponsesWhole : public AnswerWriter {
 public:
  ResponsesWhole(AnswerHead head, ResponseFrame frame) : draft_(std::move(head), std::move(frame)) {}

  std::string begin(const AnswerReport&) override { return {}; }
  std::string text(size_t, const AnswerPiece& piece) override {
    if (!draft_.has_message()) draft_.add_message();
    draft_.add(piece);
    return {};
  }
  std::string reasoning(size_t, const std::string& piece) override {
    if (!draft_.has_reasoning()) draft_.add_reasoning();
    draft_.add_text(piece);
    return {};
  }
  std::string tool_call(size_t, const ToolCallHead& head) override {
    draft_.add_call(head);
    return {};
  }
  std::string tool_arguments(size_t, const std::string& piece) override {
    draft_.add_text(piece);
    return {};
  }
  std::string end(size_t, const Ending& ending) override {
    if (draft_.empty()) draft_.add_message();
    draft_.end(ending);
    return {};
  }
  std::string finish(const AnswerReport& report) override { return to_text(draft_.finished(report)); }
  std::string fail(const ApiError& error) override { return error_body(Dialect::kOpenAi, error); }

 private:
  Draft draft_;
};

}  // namespace

std::unique_ptr<AnswerWriter> responses_stream(AnswerHead head, ResponseFrame frame) {
  return std::make_unique<ResponsesStream>(std::move(head), std::move(frame));
}

std::unique_ptr<AnswerWriter> responses_whole(AnswerHead head, ResponseFrame frame) {
  return std::make_unique<ResponsesWhole>(std::move(head), std::move(frame));
}

}  // namespace kvasir
